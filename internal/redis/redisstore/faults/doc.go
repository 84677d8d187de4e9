// Package faults tests the Redis store through what it exports: on servers that are
// harmed while it is under load, and in every mode of Redis.
package faults
