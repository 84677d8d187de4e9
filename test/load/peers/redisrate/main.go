// Redisrate runs the script of go-redis/redis_rate in pipelines, for comparison.
//
//	redisrate LISTEN REDIS[,REDIS]
//
// Each address is host:port. It serves, and answers with the number of acquires:
//
//	/run?keys=10000&limit=1000000&milliseconds=2000   acquires on keys drawn at random
//	/fill?keys=100000&limit=100                       one acquire of each key
package main

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

func main() {
	if err := serve(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "redisrate:", err)
		os.Exit(1)
	}
}

func serve(args []string) error {
	if len(args) != 2 {
		return errors.New("usage: redisrate LISTEN REDIS[,REDIS]")
	}
	cluster := redis.NewClusterClient(&redis.ClusterOptions{Addrs: strings.Split(args[1], ",")})
	http.HandleFunc("/", func(http.ResponseWriter, *http.Request) {})
	http.HandleFunc("/run", answer(func(r *http.Request) (int, error) {
		l, err := newLoad(r.Context(), cluster, number(r, "keys"), number(r, "limit"))
		if err != nil {
			return 0, err
		}
		return l.run(r.Context(), time.Duration(number(r, "milliseconds"))*time.Millisecond)
	}))
	http.HandleFunc("/fill", answer(func(r *http.Request) (int, error) {
		l, err := newLoad(r.Context(), cluster, number(r, "keys"), number(r, "limit"))
		if err != nil {
			return 0, err
		}
		return l.fill(r.Context())
	}))
	return http.ListenAndServe(args[0], nil)
}

func answer(f func(*http.Request) (int, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		n, err := f(r)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		fmt.Fprintln(w, n)
	}
}

// number is 0 where there is none, which no load takes.
func number(r *http.Request, name string) int {
	n, _ := strconv.Atoi(r.FormValue(name))
	return n
}
