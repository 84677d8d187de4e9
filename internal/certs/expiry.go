package certs

import (
	"crypto/x509"
	"encoding/pem"

	"github.com/weirlimit/weir/internal/telemetry"
)

// observe declares when the certificates of each file end.
func (s *Set) observe(metrics *telemetry.Registry) {
	for path, end := range map[string]func() int64{
		s.files.Cert: func() int64 { first, _ := ends(s.content[0]); return first },
		s.files.CA:   func() int64 { _, last := ends(s.content[2]); return last },
	} {
		if path == "" {
			continue
		}
		metrics.GaugeFuncOf("weir_certificate_expiry_seconds", "When the certificates in force of a file end, as Unix time: the first of a chain, the last of several authorities.",
			telemetry.Labels{"of": s.what, "file": path}, func() float64 {
				s.mu.Lock()
				defer s.mu.Unlock()
				s.refresh()
				return float64(end())
			})
	}
}

// ends is when the first and the last of some certificates in PEM end, as Unix time; 0: there are none.
func ends(text string) (first, last int64) {
	for block, rest := pem.Decode([]byte(text)); block != nil; block, rest = pem.Decode(rest) {
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			continue // a key in the same file
		}
		end := cert.NotAfter.Unix()
		if first == 0 || end < first {
			first = end
		}
		last = max(last, end)
	}
	return first, last
}
