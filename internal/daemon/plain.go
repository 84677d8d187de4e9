package daemon

import (
	"log/slog"
	"net"
)

// plainRemedy is what to change where calls of an address are refused for want of TLS.
const plainRemedy = "give --global-tls and its certificates (--global-tls-ca, --global-tls-cert, --global-tls-key), or --global-plain if the network encrypts by itself"

// refuses reports whether calls of an address would leave this machine without TLS, and may not.
func (a *Above) refuses(address string) bool {
	return !a.GlobalTLS.TLS && !a.GlobalPlain && !onLoopback(address)
}

// onLoopback reports whether host:port is surely on this machine. The only such name is localhost:
// what another name resolves to may change at any time.
func onLoopback(address string) bool {
	host, _, _ := net.SplitHostPort(address)
	return host == "localhost" || net.ParseIP(host).IsLoopback()
}

// usable are those of the addresses in Consul that may be called. The others are logged.
func (a *Above) usable(addresses []string, log *slog.Logger) []string {
	var usable []string
	for _, address := range addresses {
		if a.refuses(address) {
			log.Error("aggregator in consul is not called: its address is not on this machine and the calls would be without TLS", "remedy", plainRemedy, "address", address)
			continue
		}
		usable = append(usable, address)
	}
	a.warnPlain(usable, log)
	return usable
}

// warnPlain warns of calls without TLS.
func (a *Above) warnPlain(addresses []string, log *slog.Logger) {
	if a.GlobalTLS.TLS {
		return
	}
	for _, address := range addresses {
		who := "every process of this machine can make them"
		if !onLoopback(address) {
			who = "whoever is on their way can read and change them, unless the network encrypts by itself"
		}
		log.Warn("calls of the aggregator have neither TLS nor authentication", "risk", who, "remedy", "give --global-tls", "address", address)
	}
}
