// Package main is another dynamic module in Go, for an Envoy that has the filter's module, too. It allocates with each
// request and does nothing else.
package main

import "C"

var kept [64][]byte

//export goModuleRequest
func goModuleRequest(n C.int) { kept[int(n)%len(kept)] = make([]byte, 4096) }

func main() {}
