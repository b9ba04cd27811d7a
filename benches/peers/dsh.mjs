// One piece of work by DeepSeek Harness's own session service, timed from the opening of its store.
//
//   node dsh.mjs WORK KIND PLACE LOG [ARGUMENT]     prints the nanoseconds that it took
//
// KIND is zstd, raw or sqlite. LOG is a plain log: the header, then a line an event.
import { mkdirSync, readFileSync } from 'node:fs'
import { dirname, resolve } from 'node:path'
import { Context } from '@deepseek-ai/cordis'
import Sessions, { SessionId } from '@deepseek-ai/dsh-session'
import Sqlite from '@deepseek-ai/dsh-session-persistence-sqlite'
import Jsonl from '@deepseek-ai/dsh-session-persistence-jsonl'

const [work, kind, place, log, argument] = process.argv.slice(2)
const path = resolve(place)
mkdirSync(kind === 'sqlite' ? dirname(path) : path, { recursive: true, mode: 0o700 })
const [first, ...rows] = readFileSync(log, 'utf8').trimEnd().split('\n')
const { type: _, ...header } = JSON.parse(first)
const id = SessionId(header.id)
const event = (row, seq) => ({ ...JSON.parse(row), seq })
const named = name => ({ ...header, id: SessionId(name) })

const context = new Context()
await context.plugin(Sessions)

async function mounted() {
  const backend = kind === 'sqlite'
    ? await context.plugin(Sqlite, { path })
    : await context.plugin(Jsonl, { root: path, compression: kind === 'raw' ? 'none' : 'zstd' })
  return { backend, store: context.sessionPersistence }
}

const now = () => process.hrtime.bigint()
let start = now()
let end
const { backend, store } = await mounted()

if (work === 'append') {
  // The first batch makes the session, and its files as large as they stay.
  const events = rows.map(row => JSON.parse(row))
  const first = Number(argument)
  await store.create(named(header.id))
  await store.append(id, events.slice(0, first))
  start = now()
  for (const one of events.slice(first)) await store.append(id, [one])
} else if (work === 'batches' || work === 'bulk') {
  const events = rows.map(row => JSON.parse(row))
  const batch = Number(argument)
  await store.create(named(header.id))
  start = now()
  for (let at = 0; at < events.length; at += batch) await store.append(id, events.slice(at, at + batch))
} else if (work === 'read') {
  const { events } = await store.readFrom(id, 0)
  if (events.length < rows.length) throw new Error(`${events.length} events of ${rows.length}`)
} else if (work === 'suffix' || work === 'suffix-again') {
  const from = rows.length - 100
  if (work === 'suffix-again') {
    await store.readFrom(id, from)
    start = now()
  }
  const { events } = await store.readFrom(id, from)
  end = now()
  if (events.length < 100) throw new Error(`${events.length} events of 100`)
} else if (work === 'first-append') {
  await store.append(id, [event(rows[1], Number(argument))])
} else if (work === 'make') {
  const events = rows.slice(0, 2).map(row => JSON.parse(row))
  for (let n = 0; n < Number(argument); n++) {
    const name = `session-${n}`
    await store.create(named(name))
    await store.append(SessionId(name), events)
  }
} else if (work === 'list' || work === 'page' || work === 'page-again') {
  // It has no pages: a page is the start of the whole list.
  if (work === 'page-again') {
    await store.listSnapshots()
    start = now()
  }
  const sessions = await store.listSnapshots()
  end = now()
  const shown = work === 'list' ? sessions : sessions.slice(0, 50)
  if (shown.length < 50) throw new Error(`${shown.length} sessions`)
} else if (work === 'revision') {
  if (!await store.readStoredRevision(SessionId(argument))) throw new Error('no revision')
} else {
  throw new Error(`no work is called ${work}`)
}
end ??= now()
process.stdout.write(`${end - start}\n`)
await backend.dispose()
await context.fiber.dispose()
