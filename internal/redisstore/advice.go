package redisstore

import (
	"fmt"
	"strings"
)

// advices is what to change when a server, or TLS, says one of these; the first
// that fits.
var advices = []struct {
	tls        string // "on" or "off": only then
	says, then string
}{
	{"", "WRONGPASS", "set the user name and the password that the server knows; ACL LIST shows its users, and which are off"},
	{"", "NOAUTH", "the server demands a password, and got none: set it, for sentinels their own"},
	{"", "NOPERM", "give the user what weir.acl lists"},
	{"", "user executing the script can't", "give the user what weir.acl lists"},
	{"", "OOM", "raise maxmemory, add masters, or shorten the periods of the rules"},
	{"", "READONLY", "name the master: this is a replica, which takes no writes"},
	{"", "MASTERDOWN", "name the master: this is a replica, which takes no writes"},
	{"", "CLUSTERDOWN", "set cluster-require-full-coverage to no, and look at CLUSTER NODES"},
	{"", "NOREPLICAS", "set min-replicas-to-write to 0: every decision is a write"},
	{"", "MISCONF", `set save to "": counters need no snapshots`},
	{"", "password of redis user", "make the password readable"},
	{"", "unknown authority", "trust the authority that signed the server's certificate"},
	{"", "certificate is valid for", "set the name that the server's certificate bears, or give the server another one"},
	{"", "certificate required", "show a certificate: the server demands one of its clients"},
	{"", "bad certificate", "show a certificate of an authority that the server trusts"},
	{"", "unknown certificate authority", "show a certificate of an authority that the server trusts"},
	{"", errNotClustered.Error(), "use mode single, or name nodes of a cluster"},
	{"", errNoSlots.Error(), "create it: redis-cli --cluster create"},
	{"", "unknown command", "use the mode of what this is: a server, a node of a cluster, or a sentinel"},
	{"", "monitors no master", "set the name that SENTINEL MASTERS shows"},
	{"", "no such host", "correct the address"},
	{"", "refused", "start the server, or correct the address"},
	{"off", "EOF", "turn TLS on if the server demands it"},
	{"off", "connection reset", "turn TLS on if the server demands it"},
	{"on", "connection reset", "show a certificate that the server trusts, if it demands one"},
	{"on", "broken pipe", "show a certificate that the server trusts, if it demands one"},
	{"on", "EOF", "show a certificate that the server trusts, if it demands one"},
	{"on", "deadline exceeded", "turn TLS off if the server has none, or look what is between here and there"},
	{"on", "i/o timeout", "turn TLS off if the server has none, or look what is between here and there"},
}

// advised adds to an error of a server what to change.
func (c *Config) advised(err error) error {
	if err == nil {
		return nil
	}
	state := "off"
	if c.TLS != nil {
		state = "on"
	}
	for _, a := range advices {
		if (a.tls == "" || a.tls == state) && strings.Contains(err.Error(), a.says) {
			return fmt.Errorf("%w (%s)", err, a.then)
		}
	}
	return err
}
