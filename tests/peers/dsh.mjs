// DeepSeek Harness's own session service over a JSONL root or a database, driven from the command line.
//
//   node dsh.mjs make LOG ID TURNS            a plain format-0 log of that many turns, as a host would have written it
//   node dsh.mjs append KIND PLACE LOG        appends what the stored session lacks of a log, creating it where it is absent
//   node dsh.mjs export KIND PLACE ID         the stored session as plain text: the header, then a line an event
//
// KIND is zstd, raw or sqlite.
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, resolve } from 'node:path'
import { Context } from '@deepseek-ai/cordis'
import Sessions, { SessionId } from '@deepseek-ai/dsh-session'

/** How many events go down in one batch: packing follows batches, so several make a file with packed and plain rows. */
const BATCH = 7

async function within(kind, place, work) {
  const path = resolve(place)
  const isDatabase = kind === 'sqlite'
  mkdirSync(isDatabase ? dirname(path) : path, { recursive: true, mode: 0o700 })
  const { default: Backend } = isDatabase
    ? await import('@deepseek-ai/dsh-session-persistence-sqlite')
    : await import('@deepseek-ai/dsh-session-persistence-jsonl')
  const config = isDatabase ? { path } : { root: path, compression: kind === 'raw' ? 'none' : 'zstd' }
  const context = new Context()
  await context.plugin(Sessions)
  const backend = await context.plugin(Backend, config)
  try {
    await work(context.sessionPersistence)
  } finally {
    await backend.dispose()
    await context.fiber.dispose()
  }
}

function parse(log) {
  const [first, ...rows] = readFileSync(log, 'utf8').trimEnd().split('\n')
  const { type, ...header } = JSON.parse(first)
  return { header: { ...header, id: SessionId(header.id) }, events: rows.map(row => JSON.parse(row)) }
}

function* turns(count) {
  let seq = 0
  let time = 1_700_000_000_000
  const event = (type, data, rest = {}) => ({ type, seq: seq++, time: time += 7, data, ...rest })
  const user = { kind: 'user' }
  const model = { kind: 'model', provider: 'example', model: 'example-1' }
  for (let turn = 1; turn <= count; turn++) {
    const place = { turn, step: 1 }
    yield event('turn/start', { turn })
    yield event('step/start', place)
    const text = `Turn ${turn}: wie spät ist es? 現在 "時刻" \u2028 😀`
    yield event('user/message', { content: [{ type: 'text', text }], source: user, role: 'user', id: `user-${turn}` }, { surfaceOp: 'append' })
    const first = seq
    yield event('assistant/chunk', { ...place, chunk: { type: 'block-start', index: 0, blockType: 'text' } })
    for (const piece of ['It', ' is', ' late', ', ', 'very', ' late', '.', '', ' 遅い']) {
      yield event('assistant/chunk', { ...place, chunk: { type: 'text-delta', index: 0, text: piece } })
    }
    const content = [{ type: 'text', text: 'It is late, very late. 遅い' }]
    yield event('assistant/chunk', { ...place, chunk: { type: 'block-end', index: 0, block: content[0] } })
    yield event('assistant/chunk', { ...place, chunk: { type: 'finish', reason: { kind: 'stop' } } })
    const sources = Array.from({ length: seq - first }, (_, i) => first + i)
    const message = { role: 'assistant', content, source: model, id: `assistant-${turn}` }
    yield event('assistant/message', { ...place, message }, { sourceEventSeqs: sources, surfaceOp: 'append' })
    yield event('step/end', place)
    yield event('turn/end', { turn, reason: { kind: 'completed' } })
  }
}

const [verb, ...rest] = process.argv.slice(2)
if (verb === 'make' && rest.length === 3) {
  const [log, id, count] = rest
  const header = { type: 'session', version: 0, id, createdAt: 1_700_000_000_000, cwd: '/srv/peers', delegationDepth: 0 }
  writeFileSync(log, [header, ...turns(Number(count))].map(row => JSON.stringify(row) + '\n').join(''))
} else if (verb === 'append' && rest.length === 3) {
  const [kind, place, log] = rest
  const { header, events } = parse(log)
  await within(kind, place, async store => {
    const isStored = (await store.list()).some(stored => stored.id === header.id)
    if (!isStored) await store.create(header)
    const stored = isStored ? (await store.readFrom(header.id, 0)).events.length : 0
    for (let at = stored; at < events.length; at += BATCH) await store.append(header.id, events.slice(at, at + BATCH))
  })
} else if (verb === 'export' && rest.length === 3) {
  const [kind, place, id] = rest
  await within(kind, place, async store => {
    const header = (await store.list()).find(stored => stored.id === id)
    if (!header) throw new Error(`no session ${id} in ${place}`)
    const { events } = await store.readFrom(header.id, 0)
    process.stdout.write([{ type: 'session', ...header }, ...events].map(row => JSON.stringify(row) + '\n').join(''))
  })
} else {
  console.error('usage: dsh.mjs make LOG ID TURNS | append KIND PLACE LOG | export KIND PLACE ID')
  process.exitCode = 2
}
