package client_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/weirlimit/weir/api/admin/client"
	v1 "github.com/weirlimit/weir/api/admin/v1"
)

// The keys with the most rejections of the installation prod in contexts.yaml.
func Example() {
	prod, err := client.Open("prod", "")
	if err != nil {
		log.Fatal(err)
	}
	var top v1.Top
	_, err = prod.Do(context.Background(), client.Call{Path: "/v1/top?by=denied"}, &top)
	if problem := (*v1.Problem)(nil); errors.As(err, &problem) {
		log.Fatal(problem.Code, ": ", problem.Detail)
	}
	if err != nil {
		log.Fatal(err)
	}
	for _, key := range top.Keys {
		fmt.Println(key.Rule, key.Key, key.PerSecond)
	}
}
