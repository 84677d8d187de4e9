package redistest

import (
	"fmt"
	"strings"
)

// Dump is all that the cluster keeps, as text: keys and values, and the commands in the slow log.
func (c *Cluster) Dump() string {
	c.t.Helper()
	read := map[any][]any{
		"string": {"GET", nil}, "hash": {"HGETALL", nil}, "list": {"LRANGE", nil, 0, -1}, "set": {"SMEMBERS", nil},
		"zset": {"ZRANGE", nil, 0, -1, "WITHSCORES"}, "stream": {"XRANGE", nil, "-", "+"}, "none": {"TYPE", nil}, // has expired
	}
	text := new(strings.Builder)
	for _, n := range c.Nodes {
		keys, _ := n.Do("KEYS", "*").([]any)
		for _, key := range keys {
			command := read[n.Do("TYPE", key)]
			command[1] = key
			fmt.Fprintln(text, key, n.Do(command...))
		}
		fmt.Fprintln(text, n.Do("SLOWLOG", "GET", "-1"))
	}
	return text.String()
}
