package redistest

import (
	"path/filepath"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/weirlimit/weir/test/kit/fatal"
	"github.com/weirlimit/weir/test/kit/pki"
	"github.com/weirlimit/weir/test/kit/proc"
)

// TLS has servers speak TLS only, to clients, replicas, sentinels and each other,
// and only to who shows a certificate of the authority.
func TLS(a *pki.Authority) Option {
	return func(s *settings) {
		s.each = append(s.each, func(s *Server) []string {
			fatal.If(s.t, a.Write(s.dir, "server", "localhost", "127.0.0.1"))
			path := func(file string) string { return filepath.Join(s.dir, file) }
			return []string{"--tls-ca-cert-file", path("ca.pem"), "--tls-cert-file", path("server.pem"), "--tls-key-file", path("server.key"),
				"--tls-auth-clients", "yes", "--port", "0", "--tls-port", strconv.Itoa(s.Port)}
		})
		s.args = append(s.args, "--tls-replication", "yes", "--tls-cluster", "yes")
		s.client = append(s.client, func(o *redis.Options) { o.TLSConfig = a.Client("weir") })
	}
}

// Users gives servers an ACL file with this content, a line for each user, such as "user weir on >secret ~weir:* +get".
// The default user, with which the harness itself connects, goes on as it was unless a line changes it.
func Users(lines ...string) Option {
	return func(s *settings) {
		s.each = append(s.each, func(s *Server) []string {
			return []string{"--aclfile", proc.WriteFile(s.t, filepath.Join(s.dir, s.Name+".acl"), strings.Join(lines, "\n")+"\n")}
		})
	}
}

// Rejections is what the server rejected for want of a permission, the newest last: who, and what. It forgets them.
func (s *Server) Rejections() []string {
	s.t.Helper()
	var all []string
	for _, entry := range s.Do("ACL", "LOG").([]any) {
		about := pairs(entry)
		all = append([]string{about["username"] + ": " + about["reason"] + " " + about["object"] + " (" + about["context"] + ")"}, all...)
	}
	s.Do("ACL", "LOG", "RESET")
	return all
}
