package cli

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"

	"github.com/weirlimit/weir/api/admin/client"
	v1 "github.com/weirlimit/weir/api/admin/v1"
	"github.com/weirlimit/weir/internal/ruleset/amend"
	"github.com/weirlimit/weir/internal/ruleset/rulefile"
	"github.com/weirlimit/weir/internal/ruleset/versions"
)

// Versions are the versions of an installation's rules, with the methods of a [versions.Store]. Who makes one is who
// calls.
type Versions struct{ *client.Client }

const rulesPath = "/v1/rules"

// found is what answers have of a version. A [v1.Version] has the fields of a [versions.Version].
type found struct {
	Version  versions.Version `json:"version"`
	Document string           `json:"document"`
}

// Current is the newest version; a zero one if there is none.
func (s Versions) Current(ctx context.Context) (versions.Version, error) {
	f, _, err := s.get(ctx, "")
	return f.Version, err
}

// get gets a version and its document, with the ETag of the answer.
func (s Versions) get(ctx context.Context, path string) (f found, etag string, err error) {
	etag, err = s.Do(ctx, client.Call{Path: rulesPath + path}, &f)
	return f, etag, err
}

// History are the versions that are kept, the newest first.
func (s Versions) History(ctx context.Context) (all []versions.Version, err error) {
	for next, first := uint64(0), true; first || next != 0; first = false {
		var page struct {
			Items []versions.Version `json:"items"`
			Next  uint64             `json:"next"`
		}
		query := url.Values{"limit": {"100"}, "before": {strconv.FormatUint(next, 10)}}
		if _, err := s.Do(ctx, client.Call{Path: rulesPath + "/versions?" + query.Encode()}, &page); err != nil {
			return nil, err
		}
		all, next = append(all, page.Items...), page.Next
	}
	return all, nil
}

// Version is one that is kept.
func (s Versions) Version(ctx context.Context, revision uint64) (versions.Version, error) {
	f, _, err := s.get(ctx, fmt.Sprint("/versions/", revision))
	return f.Version, err
}

// Document is that of a version.
func (s Versions) Document(ctx context.Context, v versions.Version) ([]byte, error) {
	f, _, err := s.get(ctx, fmt.Sprint("/versions/", v.Revision))
	return []byte(f.Document), err
}

// List are the newest version, and the overrides and candidates that have not ended.
func (s Versions) List(ctx context.Context) (versions.Version, *amend.Document, error) {
	all := new(amend.Document)
	for _, k := range []kind{overrides, candidates} {
		var found v1.Amendments
		if _, err := s.Do(ctx, client.Call{Path: string(k)}, &found); err != nil {
			return versions.Version{}, nil, err
		}
		all.Entries = append(all.Entries, found.Items...)
	}
	v, err := s.Current(ctx)
	return v, all, err
}

// Apply puts a document in force, in the place of that of c.On; 0: of the newest.
func (s Versions) Apply(ctx context.Context, d *rulefile.Document, c versions.Change) (versions.Version, error) {
	etag := strconv.Quote(strconv.FormatUint(c.On, 10))
	if c.On == 0 {
		var err error
		if _, etag, err = s.get(ctx, ""); err != nil {
			return versions.Version{}, err
		}
	}
	return s.change(ctx, client.Call{Method: http.MethodPut, Path: rulesPath, IfMatch: etag, Body: v1.Change{Document: string(d.Text), Why: c.Why}})
}

// Rollback puts the document of an earlier version in force; revision 0: of the one before.
func (s Versions) Rollback(ctx context.Context, revision uint64, c versions.Change) (versions.Version, error) {
	return s.change(ctx, client.Call{Method: http.MethodPost, Path: rulesPath + ":rollback", Body: v1.Rollback{Revision: revision, Why: c.Why}})
}

func (s Versions) change(ctx context.Context, call client.Call) (versions.Version, error) {
	var f found
	_, err := s.Do(ctx, call, &f)
	return f.Version, err
}
