package cli

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"

	"github.com/weirlimit/weir/internal/admin/client"
	v1 "github.com/weirlimit/weir/internal/admin/v1"
	"github.com/weirlimit/weir/internal/ruleset/rulefile"
	"github.com/weirlimit/weir/internal/ruleset/versions"
)

// Versions are the versions of an installation's rules, with the methods of a [versions.Store]. Who makes one is who
// calls.
type Versions struct{ *client.Client }

const rulesPath = "/v1/rules"

// Current is the newest version; a zero one if there is none.
func (s Versions) Current(ctx context.Context) (versions.Version, error) {
	var rules v1.Rules
	if _, err := s.Do(ctx, client.Call{Path: rulesPath}, &rules); err != nil || rules.Version == nil {
		return versions.Version{}, err
	}
	return version(rules.Version), nil
}

// History are the versions that are kept, the newest first.
func (s Versions) History(ctx context.Context) (all []versions.Version, err error) {
	page := v1.Versions{}
	for first := true; first || page.Next != 0; first = false {
		query := url.Values{"limit": {"100"}, "before": {strconv.FormatUint(page.Next, 10)}}
		page = v1.Versions{}
		if _, err := s.Do(ctx, client.Call{Path: rulesPath + "/versions?" + query.Encode()}, &page); err != nil {
			return nil, err
		}
		for i := range page.Items {
			all = append(all, version(&page.Items[i]))
		}
	}
	return all, nil
}

// Version is one that is kept.
func (s Versions) Version(ctx context.Context, revision uint64) (versions.Version, error) {
	found, err := s.at(ctx, revision)
	return version(&found.Version), err
}

// Document is that of a version.
func (s Versions) Document(ctx context.Context, v versions.Version) ([]byte, error) {
	found, err := s.at(ctx, v.Revision)
	return []byte(found.Document), err
}

func (s Versions) at(ctx context.Context, revision uint64) (found v1.VersionDocument, err error) {
	_, err = s.Do(ctx, client.Call{Path: fmt.Sprint(rulesPath, "/versions/", revision)}, &found)
	return found, err
}

// Earlier is the version that [Versions.Rollback] goes back to.
func (s Versions) Earlier(ctx context.Context, revision uint64, current versions.Version) (versions.Version, error) {
	if revision != 0 {
		return s.Version(ctx, revision)
	}
	all, err := s.History(ctx)
	if err != nil {
		return versions.Version{}, err
	}
	return versions.Before(all, current)
}

// Apply puts a document in force, in the place of that of c.On; 0: of the newest.
func (s Versions) Apply(ctx context.Context, d *rulefile.Document, c versions.Change) (versions.Version, error) {
	etag := strconv.Quote(strconv.FormatUint(c.On, 10))
	if c.On == 0 {
		var err error
		if etag, err = s.Do(ctx, client.Call{Path: rulesPath}, nil); err != nil {
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
	var applied v1.Applied
	_, err := s.Do(ctx, call, &applied)
	return version(&applied.Version), err
}

func version(v *v1.Version) versions.Version {
	return versions.Version{
		Revision: v.Revision, When: v.When, Who: v.Who, Why: v.Why, RollbackTo: v.RollbackTo, Amends: v.Amends,
		Text: versions.Text{Size: v.Size, SHA256: v.SHA256},
	}
}
