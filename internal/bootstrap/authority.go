package bootstrap

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"time"

	"github.com/weirlimit/weir/internal/certs"
)

const (
	authorityLife = 10 * 365 * 24 * time.Hour
	skew          = time.Hour // a certificate is valid before it is made: clocks differ
	stamp         = "2006-01-02 15:04 UTC"
)

// Pair is a certificate and its key, in PEM.
type Pair struct {
	Cert string `json:"cert"`
	Key  string `json:"key"`
}

// parse reads the certificate and its key.
func (p *Pair) parse() (*x509.Certificate, *ecdsa.PrivateKey, error) {
	pair, err := tls.X509KeyPair([]byte(p.Cert), []byte(p.Key))
	if err != nil {
		return nil, nil, err
	}
	key, ok := pair.PrivateKey.(*ecdsa.PrivateKey)
	if !ok {
		return nil, nil, errors.New("the key is none of ECDSA")
	}
	return pair.Leaf, key, nil
}

// Authorities are those of one kind that certificates are checked with. Current signs. Next is known
// and does not sign yet; Former does not sign any more. At most one of these two is there.
type Authorities struct {
	Current *Pair `json:"current"`
	Next    *Pair `json:"next,omitempty"`
	Former  *Pair `json:"former,omitempty"`
}

// bundle has the certificates of all.
func (a *Authorities) bundle() (all string) {
	for _, p := range []*Pair{a.Current, a.Next, a.Former} {
		if p != nil {
			all += p.Cert
		}
	}
	return all
}

// rotate goes one step further: the next authority is added; then it signs; then the former is dropped.
// Each step takes effect without an outage if all have the files of the step before. An authority that
// has expired, or is not valid yet, is replaced at once.
func (a *Authorities) rotate(what string, now time.Time) (note string, err error) {
	switch end, err := a.valid(what, now); {
	case err != nil && end.IsZero():
		return "", err
	case err != nil:
		a.Current, err = newAuthority(what, now)
		a.Next, a.Former = nil, nil
		return what + "'s authority: it was not valid and is replaced at once, with all certificates: all programs need the new files together", err
	case a.Former != nil:
		a.Former = nil
		return what + "'s authority: the former one is dropped (step 3 of 3)", nil
	case a.Next != nil:
		a.Former, a.Current, a.Next = a.Current, a.Next, nil
		return what + "'s authority: the new one signs, and the former one is accepted (step 2 of 3); when all have these files, --rotate authority once more", nil
	}
	a.Next, err = newAuthority(what, now)
	return what + "'s authority: a new one is accepted and does not sign yet (step 1 of 3); when all have these files, --rotate authority again", err
}

// valid fails if the current authority is not valid at this time, or cannot be read (then end is zero).
func (a *Authorities) valid(what string, now time.Time) (end time.Time, err error) {
	cert, _, err := a.Current.parse()
	if err != nil {
		return end, fmt.Errorf("%s's authority in %s: %w; put the file back from your copy", what, stateFile, err)
	}
	wrong := ""
	switch {
	case now.Before(cert.NotBefore):
		wrong = "is valid from " + cert.NotBefore.UTC().Format(stamp) + " on (is this machine's clock right?)"
	case !now.Before(cert.NotAfter):
		wrong = "expired on " + cert.NotAfter.UTC().Format(stamp)
	default:
		return cert.NotAfter, nil
	}
	return cert.NotAfter, fmt.Errorf("%s's authority %s: no program accepts its certificates, and nothing was changed; run with --rotate authority, which replaces it with all certificates, and bring the new files to all programs at once",
		what, wrong)
}

// ends fails if the authority is not valid. The note says that it is time to replace it.
func (a *Authorities) ends(what string, now time.Time) (note string, err error) {
	end, err := a.valid(what, now)
	if err == nil && a.Next == nil && now.After(end.Add(-authorityLife/3)) {
		note = fmt.Sprintf("%s's authority ends on %s, and its certificates with it: --rotate authority", what, end.UTC().Format(time.DateOnly))
	}
	return note, err
}

func newAuthority(what string, now time.Time) (*Pair, error) {
	return sign(&x509.Certificate{
		// Each has a name of its own, so that nobody takes one for the other.
		Subject: pkix.Name{CommonName: fmt.Sprintf("%s authority %x", what, random(4))},
		IsCA:    true, BasicConstraintsValid: true, MaxPathLenZero: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
		NotBefore: now.Add(-skew), NotAfter: now.Add(authorityLife),
	}, nil)
}

// issue makes a certificate for servers and clients. It ends with its authority at the latest.
func (a *Authorities) issue(names []string, now time.Time, life time.Duration) (*Pair, error) {
	parent, _, err := a.Current.parse()
	if err != nil {
		return nil, err
	}
	end := now.Add(life)
	if end.After(parent.NotAfter) {
		end = parent.NotAfter
	}
	c := &x509.Certificate{
		Subject: pkix.Name{CommonName: names[0]}, NotBefore: now.Add(-skew), NotAfter: end, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
	}
	for _, name := range names {
		if ip := net.ParseIP(name); ip != nil {
			c.IPAddresses = append(c.IPAddresses, ip)
		} else if u, err := url.Parse(name); err == nil && u.Scheme != "" {
			c.URIs = append(c.URIs, u)
		} else {
			c.DNSNames = append(c.DNSNames, name)
		}
	}
	return sign(c, a.Current)
}

// good reports whether a certificate is of the current authority, for these names, is valid already, and has
// used up less than two thirds of its life.
func (a *Authorities) good(p *Pair, names []string, now time.Time) bool {
	if p == nil {
		return false
	}
	cert, _, err1 := p.parse()
	parent, _, err2 := a.Current.parse()
	if err1 != nil || err2 != nil || cert.CheckSignatureFrom(parent) != nil {
		return false
	}
	is := certs.Names(cert)
	same := len(is) == len(names) && !slices.ContainsFunc(names, func(n string) bool { return !slices.Contains(is, n) })
	return same && !now.Before(cert.NotBefore) && now.Before(cert.NotBefore.Add(cert.NotAfter.Sub(cert.NotBefore)*2/3))
}

// sign makes a key and signs a certificate for it. by nil: it signs itself.
func sign(c *x509.Certificate, by *Pair) (*Pair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	parent, signer := c, key
	if by != nil {
		if parent, signer, err = by.parse(); err != nil {
			return nil, err
		}
	}
	der, err1 := x509.CreateCertificate(rand.Reader, c, parent, key.Public(), signer)
	keyDER, err2 := x509.MarshalPKCS8PrivateKey(key)
	return &Pair{
		Cert: string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})),
		Key:  string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER})),
	}, errors.Join(err1, err2)
}
