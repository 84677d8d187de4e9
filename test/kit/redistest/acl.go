package redistest

import (
	"os"
	"path/filepath"
	"strings"
)

// Users gives servers an ACL file with this content, a line for each user, such as "user weir on >secret ~weir:* +get".
// The default user, with which the harness itself connects, goes on as it was unless a line changes it.
func Users(lines ...string) Option {
	return func(s *settings) {
		s.each = append(s.each, func(s *Server) []string {
			path := filepath.Join(s.dir, s.Name+".acl")
			if err := os.WriteFile(path, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
				s.t.Fatalf("%s: %v", s.Name, err)
			}
			return []string{"--aclfile", path}
		})
	}
}

// Refusals is what the server refused for want of a permission, the newest last: who, and what. It forgets them.
func (s *Server) Refusals() []string {
	s.t.Helper()
	var all []string
	for _, entry := range s.Do("ACL", "LOG").([]any) {
		about := pairs(entry)
		all = append([]string{about["username"] + ": " + about["reason"] + " " + about["object"] + " (" + about["context"] + ")"}, all...)
	}
	s.Do("ACL", "LOG", "RESET")
	return all
}
