package topology

import (
	"cmp"
	"net"
	"net/netip"
	"strconv"
	"strings"
)

// fullAddress completes the address of a node as another node at origin returned it. A
// missing host is that of origin (the cluster has no endpoint for it), a port of 0 is
// that of origin (a cluster with TLS only), and a loopback address from another host
// means that host. An IPv6 address may lack its brackets: MOVED and ASK write none. It
// returns an empty string if addr is no address.
func fullAddress(addr, origin string) string {
	host, port, ok := splitAddress(addr)
	originHost, originPort, originOK := splitAddress(origin)
	if !ok || !originOK {
		return ""
	}
	originHost = cmp.Or(originHost, "localhost")
	if host == "" || host == "?" || isLoopback(host) && !isLoopback(originHost) {
		host = originHost
	}
	if port == "0" {
		port = originPort
	}
	return net.JoinHostPort(host, port)
}

// splitAddress splits at the last colon. ok is true if there are a host, which may be
// empty, and a port number.
func splitAddress(addr string) (host, port string, ok bool) {
	colon := strings.LastIndexByte(addr, ':')
	if colon < 0 {
		return "", "", false
	}
	host, port = addr[:colon], addr[colon+1:]
	if inner, bracketed := strings.CutPrefix(host, "["); bracketed && strings.HasSuffix(inner, "]") {
		host = inner[:len(inner)-1]
	}
	if strings.ContainsAny(host, ":[]") {
		if _, err := netip.ParseAddr(host); err != nil {
			return "", "", false
		}
	}
	_, err := strconv.ParseUint(port, 10, 16)
	return host, port, err == nil
}

func isLoopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}
