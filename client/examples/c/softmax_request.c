// The softmax of a row, in C:  softmax_request TARGET NUMBER...
//   cc softmax_request.c $(pkg-config --cflags --libs softmax-client-c) -o softmax_request
#include <softmax/softmax.h>
#include <stdio.h>
#include <stdlib.h>

static int Failed(softmax_error* error) {
  fprintf(stderr, "softmax_request: %s\n", softmax_error_message(error));
  softmax_error_free(error);
  return 1;
}

int main(int argc, char** argv) {
  if (argc < 3) return fprintf(stderr, "usage: softmax_request TARGET NUMBER...\n"), 2;
  const int64_t columns = argc - 2;
  float* row = malloc(columns * sizeof *row);
  for (int64_t i = 0; i < columns; ++i) row[i] = strtof(argv[i + 2], NULL);

  softmax_client_options options;
  softmax_client_options_init(&options);
  options.target = argv[1];
  softmax_client* client;
  softmax_error* error;
  if (softmax_client_new(&options, &client, &error) != 0) return Failed(error);

  softmax_request request = {.size = sizeof request, .dtype = SOFTMAX_FLOAT32, .rank = 1, .shape = &columns};
  request.operation = SOFTMAX_SOFTMAX;
  request.axis = -1;
  if (softmax_run(client, &request, row, row, NULL, NULL, &error) != 0) return Failed(error);
  for (int64_t i = 0; i < columns; ++i) printf("%g ", row[i]);
  printf("\n");
  softmax_client_free(client);
  free(row);
  return 0;
}
