// Package faults tests the Redis store through what it exports: on servers that are
// harmed while it is under load, and in every mode of Redis.
//
// The tests under load compare what an ask took with its budget, so that they have the
// machine for themselves. Those of package redisstore run beside others.
package faults
