"""Rows of numbers on standard input, their softmax on standard output: softmax_request.py [host:port]."""
import sys
import numpy
import softmax_client
with softmax_client.Client(sys.argv[1] if len(sys.argv) > 1 else "localhost:50051") as client:
    numpy.savetxt(sys.stdout, client.softmax(numpy.loadtxt(sys.stdin, numpy.float32, ndmin=2)), "%.8g")
