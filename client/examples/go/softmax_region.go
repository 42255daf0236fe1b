// The softmax of rows that lie in memory which the server of this machine shares, so that they do not travel:
//
//	CGO_CFLAGS=$(pkg-config --cflags softmax-client-c) CGO_LDFLAGS=$(pkg-config --libs softmax-client-c) \
//	  go run softmax_region.go TARGET ROWS COLUMNS
package main

// #include <softmax/softmax.h>
// #include <stdlib.h>
import "C"

import (
	"fmt"
	"log"
	"os"
	"strconv"
	"unsafe"
)

func must(code C.int32_t, failed *C.softmax_error) {
	if code != 0 {
		log.Fatal(C.GoString(C.softmax_error_message(failed)))
	}
}

func main() {
	rows, _ := strconv.Atoi(os.Args[2])
	columns, _ := strconv.Atoi(os.Args[3])
	var options C.softmax_client_options
	C.softmax_client_options_init(&options)
	options.target = C.CString(os.Args[1])
	var client *C.softmax_client
	var failed *C.softmax_error
	must(C.softmax_client_new(&options, &client, &failed), failed)
	defer C.softmax_client_free(client)
	var region *C.softmax_region
	must(C.softmax_region_allocate(client, C.uint64_t(rows*columns*4), C.SOFTMAX_HOST, &region, &failed), failed)
	defer C.softmax_region_free(region)

	data := C.softmax_region_data(region)
	numbers := unsafe.Slice((*float32)(data), rows*columns)
	for i := range numbers {
		numbers[i] = float32(i % 7)
	}
	shape := (*[2]C.int64_t)(C.malloc(16))
	*shape = [2]C.int64_t{C.int64_t(rows), C.int64_t(columns)}
	request := C.softmax_request{size: C.sizeof_softmax_request, dtype: C.SOFTMAX_FLOAT32, rank: 2, shape: &shape[0],
		operation: C.SOFTMAX_SOFTMAX, axis: -1}
	must(C.softmax_run(client, &request, data, data, nil, nil, &failed), failed)
	for row := 0; row < rows; row++ {
		sum := 0.0
		for _, number := range numbers[row*columns : (row+1)*columns] {
			sum += float64(number)
		}
		fmt.Printf("%.5f %.5f\n", numbers[row*columns], sum)
	}
}
