// Package twin runs weir-regional beside the real envoyproxy/ratelimit and compares
// what they answer.
//
// Configurations and requests are made at random from a grammar. Each request goes
// to both, one after the other, and the answers have to be the same, but for the
// lines of the list in docs/ratelimit-service.md ("Differences from envoyproxy/ratelimit"). The
// test has each of these lines as a function that turns the answer of
// envoyproxy/ratelimit into what Weir has to answer instead, see line. What is not
// the same then is a failure, with the requests until then.
//
// Weir runs on each store, and with the flags that change what it answers.
package twin
