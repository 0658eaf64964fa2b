// node.mjs JOBS.json OUT.json: runs exported models in onnxruntime-node.
import fs from 'node:fs'
import { createRequire } from 'node:module'
const ort = createRequire(process.cwd() + '/')('onnxruntime-node')
const arrays = { float32: Float32Array, float64: Float64Array, int64: BigInt64Array, int32: Int32Array, bool: Uint8Array, float16: Uint16Array, uint8: Uint8Array, int8: Int8Array }
const [jobs, out] = process.argv.slice(2)
const results = {}
for (const job of JSON.parse(fs.readFileSync(jobs))) {
  try {
    const session = await ort.InferenceSession.create(job.model, { logSeverityLevel: 3 })
    const feeds = {}
    for (const { name, type, dims, file } of job.inputs) {
      if (type === 'string') { feeds[name] = new ort.Tensor('string', JSON.parse(fs.readFileSync(file)), dims); continue }
      const bytes = fs.readFileSync(file)
      feeds[name] = new ort.Tensor(type, new arrays[type](bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.byteLength)), dims)
    }
    const got = await session.run(feeds, job.outputs)
    results[job.name] = Object.fromEntries(job.outputs.map(o => [o, Array.from(got[o].data, v => Number.isFinite(Number(v)) ? Number(v) : String(v))]))
  } catch (e) { results[job.name] = { error: String(e.message ?? e) } }
}
fs.writeFileSync(out, JSON.stringify(results))
