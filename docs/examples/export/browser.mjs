// browser.mjs JOBS.json OUT.json CHROMIUM: runs exported models in onnxruntime-web, in headless Chromium.
import fs from 'node:fs'
import http from 'node:http'
import path from 'node:path'
import { createRequire } from 'node:module'
const require = createRequire(process.cwd() + '/')
const { chromium } = require('playwright-core')
const dist = path.dirname(require.resolve('onnxruntime-web'))
const [jobs, out, executablePath] = process.argv.slice(2)
const list = JSON.parse(fs.readFileSync(jobs))
const types = { '.mjs': 'text/javascript', '.js': 'text/javascript', '.wasm': 'application/wasm', '.html': 'text/html' }
const server = http.createServer((request, response) => {
  const name = decodeURIComponent(request.url.split('?')[0])
  const file = name === '/' ? null : name.startsWith('/ort/') ? path.join(dist, name.slice(5)) : name
  response.setHeader('Content-Type', file ? types[path.extname(file)] ?? 'application/octet-stream' : 'text/html')
  if (!file) return response.end('<!doctype html><title>agree</title><script src="/ort/ort.wasm.min.js"></script>')
  fs.createReadStream(file).on('error', () => { response.statusCode = 404; response.end() }).pipe(response)
}).listen(0)
const browser = await chromium.launch({ executablePath, args: ['--no-sandbox'] })
const page = await browser.newPage()
await page.goto(`http://localhost:${server.address().port}/`)
const results = {}
for (const job of list) {
  results[job.name] = await page.evaluate(async job => {
    const arrays = { float32: Float32Array, float64: Float64Array, int64: BigInt64Array, int32: Int32Array, bool: Uint8Array, float16: Uint16Array, uint8: Uint8Array, int8: Int8Array }
    try {
      ort.env.wasm.wasmPaths = '/ort/'; ort.env.wasm.numThreads = 1
      const session = await ort.InferenceSession.create(job.model, { executionProviders: ['wasm'], logSeverityLevel: 3 })
      const feeds = {}
      for (const { name, type, dims, file } of job.inputs) {
        const got = await fetch(file)
        feeds[name] = type === 'string' ? new ort.Tensor('string', await got.json(), dims) : new ort.Tensor(type, new arrays[type](await got.arrayBuffer()), dims)
      }
      const got = await session.run(feeds, job.outputs)
      return Object.fromEntries(job.outputs.map(o => [o, Array.from(got[o].data, v => Number.isFinite(Number(v)) ? Number(v) : String(v))]))
    } catch (e) { return { error: String(e.message ?? e) } }
  }, job)
}
await browser.close()
server.close()
fs.writeFileSync(out, JSON.stringify(results))
