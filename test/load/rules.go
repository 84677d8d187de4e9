//go:build linux

package main

// The rules of the benchmark. What is measured in rounds has limits that it
// cannot reach and leases that outlast the rests between the rounds: those rows
// are about a decision, not about fetching leases. The whole path has the limit
// and the leases of everyday use.
//
// The paths keep the rules of one file apart, so that one PoP serves several rows.

// oneRule is a rule that admits everything, one that admits one request per key
// and day, and the first one with X-RateLimit headers too.
const oneRule = `
rules:
  - name: user
    match: { path: { prefix: /one/ } }
    key: [ { header: x-user-id } ]
    limit: 100000000/1h
    lease: { ttl: 1h }
  - name: user-x
    match: { path: { prefix: /x/ } }
    key: [ { header: x-user-id } ]
    limit: 100000000/1h
    lease: { ttl: 1h }
    x_ratelimit: draft03
  - name: refused
    match: { path: { prefix: /refused/ } }
    key: [ { header: x-user-id } ]
    limit: 1/1d
    algorithm: fixed_window
`

// threeRules counts every request by user, by address and in total.
const threeRules = `
rules:
  - name: user
    match: { path: { prefix: /three/ } }
    key: [ { header: x-user-id } ]
    limit: 100000000/1h
    lease: { ttl: 1h }
  - name: address
    match: { path: { prefix: /three/ } }
    key: [ client_ip ]
    limit: 1000000000/1h
    lease: { ttl: 1h }
  - name: total
    match: { path: { prefix: /three/ } }
    key: [ { const: total } ]
    limit: 1000000000/1h
    lease: { ttl: 1h }
`

// pathRules has a rule of its own for each traffic, so that none finds the leases
// of another.
const pathRules = `
rules:
  - name: uniform
    match: { path: { prefix: /uniform/ } }
    key: [ { header: x-user-id } ]
    limit: 1000/1m
  - name: zipf
    match: { path: { prefix: /zipf/ } }
    key: [ { header: x-user-id } ]
    limit: 1000/1m
`

// memoryRules keeps every key alive: its lease outlasts the measurement.
const memoryRules = `
rules:
  - name: user
    match: { path: { prefix: /memory/ } }
    key: [ { header: x-user-id } ]
    limit: 1000/1h
    lease: { ttl: 1h }
`
