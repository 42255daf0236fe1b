// Softmax from Node.js: rows of numbers on standard input, their softmax on standard output. With a number k behind the
// address, only the k most probable elements of each row: row, index, probability.
//
//     npm install && echo '1 2 3' | node softmax_request.js localhost:50051
//     echo '1 2 3' | node softmax_request.js localhost:50051 2
'use strict';

const fs = require('fs');
const path = require('path');
const grpc = require('@grpc/grpc-js');
const protoLoader = require('@grpc/proto-loader');

const PROTO = process.env.SOFTMAX_PROTO || path.join(__dirname, '../../../proto/softmax/v1/softmax.proto');
const TIMEOUT_MS = 10000;

function call(client, method, request) {
  return new Promise((resolve, reject) => {
    client[method](request, {deadline: Date.now() + TIMEOUT_MS},
                   (error, answer) => (error ? reject(error) : resolve(answer)));
  });
}

// This machine is not sought by a proxy of the environment (http_proxy), which knows another localhost.
function straight(address) {
  const local = /^(dns:\/\/\/|ipv[46]:)?(localhost:|127\.|\[::1\]:)|^unix:/.test(address);
  return local ? {'grpc.enable_http_proxy': 0} : {};
}

// A client that takes answers as large as the server sends them; gRPC's own limit is 4 MiB.
async function connect(address) {
  const definition = protoLoader.loadSync(PROTO, {keepCase: true, longs: Number, enums: String});
  const {SoftmaxService} = grpc.loadPackageDefinition(definition).softmax.v1;
  const plain = grpc.credentials.createInsecure();
  const first = new SoftmaxService(address, plain, straight(address));
  const info = await call(first, 'GetServerInfo', {});
  first.close();
  // The limit counts the tensor; the answer's header comes on top.
  const receive = Math.min(Number(info.limits.max_response_bytes) + (1 << 16), 2 ** 31 - 1);
  return new SoftmaxService(address, plain, {
    ...straight(address),
    'grpc.max_receive_message_length': receive,
    'grpc.max_send_message_length': -1,
  });
}

// The answer about a dense float32 tensor. Tensors travel little-endian.
function ask(client, values, shape, more) {
  const data = Buffer.alloc(values.length * 4);
  values.forEach((value, i) => data.writeFloatLE(value, i * 4));
  return call(client, 'Softmax', {...more, input: {dtype: 'DATA_TYPE_FLOAT32', shape, data}});
}

// Softmax over the last axis: a Float32Array, row by row.
async function softmax(client, values, shape) {
  const answer = await ask(client, values, shape);
  const bytes = answer.output.data;
  return Float32Array.from({length: bytes.length / 4}, (_, i) => bytes.readFloatLE(i * 4));
}

// The k most probable elements of each row, as {index, probability}, and no tensor. A row that has fewer elements is
// filled up with index -1.
async function top(client, values, shape, k) {
  const answer = await ask(client, values, shape, {summary: {top_k: k}});
  const {top_values: probabilities, top_indices: indices} = answer.summary;
  return Array.from({length: indices.length / 4},
                    (_, i) => ({index: indices.readInt32LE(i * 4), probability: probabilities.readFloatLE(i * 4)}));
}

async function main() {
  const address = process.argv[2] || 'localhost:50051';
  const k = process.argv[3] === undefined ? 0 : Number(process.argv[3]);
  if (!Number.isInteger(k) || k < 0) throw new Error(`expected a number of elements, got ${process.argv[3]}`);
  const rows = fs.readFileSync(0, 'utf8').split(/\r\n|\r|\n/).filter((line) => line.trim())
      .map((line) => line.trim().split(/\s+/).map(Number));
  const width = rows.length ? rows[0].length : 0;
  if (!width || rows.some((row) => row.length !== width || row.some(Number.isNaN))) {
    throw new Error('expected rows of the same number of numbers on standard input');
  }
  const numbers = rows.flat();
  const values = Float32Array.from(numbers);
  if (values.some((value, i) => !Number.isFinite(value) && Number.isFinite(numbers[i]))) {
    throw new Error('a number is too large for float32');
  }
  const client = await connect(address);
  if (k > 0) {
    const best = await top(client, values, [rows.length, width], k);
    best.forEach(({index, probability}, i) => {
      if (index >= 0) console.log(Math.floor(i / k), index, Number(probability.toPrecision(8)));
    });
  } else {
    const result = await softmax(client, values, [rows.length, width]);
    for (let start = 0; start < result.length; start += width) {
      console.log(Array.from(result.subarray(start, start + width), (y) => Number(y.toPrecision(8))).join(' '));
    }
  }
  client.close();
}

if (require.main === module) {
  main().catch((error) => {
    console.error(error.details || error.message);
    process.exit(1);
  });
}

module.exports = {connect, softmax, top};
