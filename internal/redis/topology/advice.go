package topology

import (
	"fmt"
	"strings"
)

const giveRights = "give the user what weir.acl lists: docs/redis.md#acl-user"

// advices maps parts of error texts of a server, or of TLS, to what to change. The first
// that fits is used.
var advices = []struct {
	tls          string // "on" or "off": only with or without TLS
	text, change string
}{
	{"", "WRONGPASS", "set a user name and password that the server accepts; ACL LIST shows its users, and which are off"},
	{"", "NOAUTH", "the server demands a password, and got none: set it, for sentinels their own"},
	{"", "NOPERM", giveRights},
	{"", "user executing the script can't", giveRights}, // Redis 7
	{"", "ACL failure in script", giveRights},           // Redis 8, Valkey 8
	{"", "OOM", "raise maxmemory, add masters, or shorten the periods of the rules"},
	{"", "READONLY", "name the master: this is a replica, which takes no writes"},
	{"", "MASTERDOWN", "name the master: this is a replica, which takes no writes"},
	{"", "CLUSTERDOWN", "set cluster-require-full-coverage to no, and look at CLUSTER NODES"},
	{"", "NOREPLICAS", "set min-replicas-to-write to 0: every decision is a write"},
	{"", "MISCONF", `set save to "": counters need no snapshots`},
	{"", "password of redis user", "make the password readable"},
	{"", "unknown authority", "trust the authority that signed the server's certificate"},
	{"", "certificate is valid for", "set the server name to one in the server's certificate, or replace the certificate"},
	{"", "certificate required", "configure a client certificate: the server demands one"},
	{"", "bad certificate", "configure a client certificate of an authority that the server trusts"},
	{"", "unknown certificate authority", "configure a client certificate of an authority that the server trusts"},
	{"", errNotClustered.Error(), "use mode single, or name nodes of a cluster"},
	{"", errNoSlots.Error(), "create it: redis-cli --cluster create"},
	{"", "unknown command", "choose the mode for this server: single, cluster or sentinel"},
	{"", "is monitored there", "set the name that SENTINEL MASTERS shows"},
	{"", "no such host", "correct the address"},
	{"", "refused", "start the server, or correct the address"},
	{"off", "EOF", "turn TLS on if the server demands it"},
	{"off", "connection reset", "turn TLS on if the server demands it"},
	{"on", "connection reset", "configure a client certificate, if the server demands one"},
	{"on", "broken pipe", "configure a client certificate, if the server demands one"},
	{"on", "EOF", "configure a client certificate, if the server demands one"},
	{"on", "deadline exceeded", "turn TLS off if the server has none, or check the network path"},
	{"on", "i/o timeout", "turn TLS off if the server has none, or check the network path"},
}

// Advised adds to an error of a server what the operator can change.
func (c *Config) Advised(err error) error {
	if err == nil {
		return nil
	}
	state := "off"
	if c.TLS != nil {
		state = "on"
	}
	for _, a := range advices {
		if (a.tls == "" || a.tls == state) && strings.Contains(err.Error(), a.text) {
			return fmt.Errorf("%w (%s)", err, a.change)
		}
	}
	return err
}
