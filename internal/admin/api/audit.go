package api

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	v1 "github.com/weirlimit/weir/api/admin/v1"
	"github.com/weirlimit/weir/internal/admin/access"
)

const (
	// trailTime bounds how long a change waits for its entry to be kept.
	trailTime = 5 * time.Second
	// maxText bounds each text of an entry, in bytes.
	maxText = 1000
)

// Record adds a change that was made to the audit: to the log, and to what keeps the last entries. Who made it and when
// is filled in. It does not end with the call, whose caller may have gone.
func (a *API) Record(ctx context.Context, e v1.AuditEntry) {
	caller := Caller(ctx)
	e.When, e.Who, e.Role = time.Now().UTC().Truncate(time.Microsecond), caller.Name, caller.Role.String()
	for _, text := range []*string{&e.On, &e.Before, &e.After, &e.Why} {
		*text = (*text)[:min(len(*text), maxText)]
	}
	var random [4]byte
	_, _ = rand.Read(random[:]) // never fails
	e.ID = fmt.Sprintf("%016d-%x", e.When.UnixMicro(), random)
	a.cfg.Log.Info("audit", "id", e.ID, "who", e.Who, "role", e.Role, "what", e.What, "on", e.On, "before", e.Before, "after", e.After, "why", e.Why)

	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), trailTime)
	defer cancel()
	entry, _ := json.Marshal(&e) // of texts
	if a.cfg.Trail == nil {
		return
	}
	if err := a.cfg.Trail.Note(ctx, e.ID, entry); err != nil {
		a.cfg.Log.Error("cannot store an entry of the audit log; only this log has it", "id", e.ID, "error", err)
	}
}

// Page is which part of a list is asked for. It is embedded into the input of an operation.
type Page struct {
	Limit int `query:"limit" minimum:"1" maximum:"100" default:"20" doc:"Most items of the page."`
}

type auditInput struct {
	Page
	Before string `query:"before" maxLength:"64" doc:"The value of next of the page before."`
}

func (a *API) addAudit() {
	Add(a, access.Viewer, huma.Operation{
		OperationID: "audit", Method: http.MethodGet, Path: "/v1/audit", Summary: "Who changed what",
		Description: "The last 1,000 changes are kept where the versions of the rules are. With a rules file only the log has them.",
	}, a.audit)
}

func (a *API) audit(ctx context.Context, in *auditInput) (*Body[v1.Audit], error) {
	if a.cfg.Trail == nil {
		return nil, v1.NewProblem(http.StatusConflict, v1.CodeReadOnly, "the rules are in a file, so that no audit is kept: each program has its changes in its log, in lines with the message audit")
	}
	ctx, cancel := context.WithTimeout(ctx, trailTime)
	defer cancel()
	found, err := a.cfg.Trail.Notes(ctx, in.Before, in.Limit+1)
	if err != nil {
		return nil, v1.NewProblem(http.StatusServiceUnavailable, v1.CodeStore, err.Error())
	}
	out := &Body[v1.Audit]{v1.Audit{Items: []v1.AuditEntry{}}}
	for _, text := range found[:min(len(found), in.Limit)] {
		var e v1.AuditEntry
		if json.Unmarshal(text, &e) == nil { // else somebody has changed it by hand
			out.Body.Items = append(out.Body.Items, e)
		}
	}
	if n := len(out.Body.Items); len(found) > in.Limit && n > 0 {
		out.Body.Next = out.Body.Items[n-1].ID
	}
	return out, nil
}
