// What a client of gRPC expects of a server, by @grpc/grpc-js: calls.js FOLDER_OF_PACKAGES ADDRESS. Prints ok.
const assert = require('assert');
const path = require('path');
const grpc = require(path.join(process.argv[2], 'node_modules/@grpc/grpc-js'));

const bytes = { requestSerialize: (x) => x, requestDeserialize: (x) => x, responseSerialize: (x) => x,
  responseDeserialize: (x) => x };
const method = (name, stream) => ({ ...bytes, path: `/softmax.v1.SoftmaxService/${name}`, requestStream: stream,
  responseStream: stream });
const Service = grpc.makeGenericClientConstructor({ Softmax: method('Softmax', false), Never: method('Never', false),
  Nothing: method('Nothing', false), SoftmaxStream: method('SoftmaxStream', true) }, 'softmax.v1.SoftmaxService');
const client = new Service(process.argv[3], grpc.credentials.createInsecure());

// The answer, or the error.
function call(name, message, { timeout = 20000, metadata = {}, cancelAfter } = {}) {
  const headers = new grpc.Metadata();
  for (const [key, value] of Object.entries(metadata)) headers.set(key, value);
  return new Promise((resolve) => {
    const made = client[name](message, headers, { deadline: Date.now() + timeout },
      (error, answer) => resolve(error || answer));
    if (cancelAfter !== undefined) setTimeout(() => made.cancel(), cancelAfter);
  });
}

async function stream(messages) {
  const made = client.SoftmaxStream({ deadline: Date.now() + 20000 });
  const answers = [];
  const ended = new Promise((resolve, reject) => {
    made.on('data', (answer) => answers.push(answer));
    made.on('end', resolve);
    made.on('error', reject);
  });
  for (const message of messages) made.write(message);
  made.end();
  await ended;
  assert.strictEqual(answers.length, messages.length);
  messages.forEach((message, i) => assert(message.equals(answers[i])));
}

async function main() {
  for (const size of [0, 1, 20000, 3000000]) {
    const message = Buffer.alloc(size, size % 251);
    assert(message.equals(await call('Softmax', message)), `${size} bytes`);
  }
  const many = Array.from({ length: 500 }, (_, i) => Buffer.alloc(i, i));
  const answers = await Promise.all(many.map((message) => call('Softmax', message)));
  answers.forEach((answer, i) => assert(many[i].equals(answer)));
  await stream(many);
  await stream([]);
  const error = async (...args) => (await call(...args)).code;
  assert.strictEqual(await error('Nothing', Buffer.from('x')), grpc.status.UNIMPLEMENTED);
  assert.strictEqual(await error('Never', Buffer.from('x'), { timeout: 100 }), grpc.status.DEADLINE_EXCEEDED);
  assert.strictEqual(await error('Never', Buffer.from('x'), { cancelAfter: 50 }), grpc.status.CANCELLED);
  const asked = await call('Softmax', Buffer.from('x'), { metadata: { 'x-test-status': '7 not 100 % allowed' } });
  assert.strictEqual(asked.code, grpc.status.PERMISSION_DENIED);
  assert.strictEqual(asked.details, 'not 100 % allowed');
  console.log('ok');
  client.close();
}
main().catch((failed) => { console.error(failed); process.exit(1); });
