// A collector of OpenTelemetry's spans that is made of its published classes: collector.js FOLDER_OF_PACKAGES
// Prints the port that it listens on, and then each request that it gets as a line of JSON: ids in hex, times and
// other numbers of 64 bits as texts.
const path = require('path');
const packages = path.join(process.argv[2], 'node_modules');
const grpc = require(path.join(packages, '@grpc/grpc-js'));
const root = require(path.join(packages, '@opentelemetry/otlp-transformer/build/src/generated/root.js'));

const { ExportTraceServiceRequest, ExportTraceServiceResponse } = root.opentelemetry.proto.collector.trace.v1;
const service = {
  Export: {
    path: '/opentelemetry.proto.collector.trace.v1.TraceService/Export',
    requestStream: false,
    responseStream: false,
    requestDeserialize: (bytes) => ExportTraceServiceRequest.decode(bytes),
    responseSerialize: (response) => Buffer.from(ExportTraceServiceResponse.encode(response).finish()),
    requestSerialize: (request) => request,
    responseDeserialize: (bytes) => bytes,
  },
};

function shown(key, value) {
  if (!/(Id|_id)$/.test(key) || typeof value !== 'string') return value;
  return Buffer.from(value, 'base64').toString('hex');
}

const server = new grpc.Server();
server.addService(service, {
  Export: (call, callback) => {
    const plain = ExportTraceServiceRequest.toObject(call.request, { bytes: String, longs: String, enums: String });
    console.log(JSON.stringify(plain, shown));
    callback(null, {});
  },
});
server.bindAsync('127.0.0.1:0', grpc.ServerCredentials.createInsecure(), (error, port) => {
  if (error) throw error;
  console.log(port);
});
