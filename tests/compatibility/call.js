// Calls that @grpc/grpc-js makes with the messages as bytes: call.js FOLDER_OF_PACKAGES TARGET REQUEST_HEX
// Prints the answer in hex, once for each way to call.
const path = require('path');
const grpc = require(path.join(process.argv[2], 'node_modules/@grpc/grpc-js'));

const bytes = { requestSerialize: (x) => x, requestDeserialize: (x) => x, responseSerialize: (x) => x,
  responseDeserialize: (x) => x, requestStream: false, responseStream: false };
const Service = grpc.makeGenericClientConstructor({
  Softmax: { ...bytes, path: '/softmax.v1.SoftmaxService/Softmax' },
}, 'softmax.v1.SoftmaxService');
const client = new Service(process.argv[3], grpc.credentials.createInsecure());
const request = Buffer.from(process.argv[4], 'hex');
const deadlines = [new Date(Date.now() + 10000), Infinity, new Date('2400-01-01')];

function next(i) {
  if (i === deadlines.length) {
    client.close();
    return;
  }
  client.Softmax(request, { deadline: deadlines[i] }, (error, answer) => {
    if (error) {
      console.error(`deadline ${deadlines[i]}: ${error.message}`);
      process.exit(1);
    }
    console.log(answer.toString('hex'));
    next(i + 1);
  });
}
next(0);
