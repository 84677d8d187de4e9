package follow

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/weirlimit/weir/internal/consul"
	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/ruleset/amend"
	"github.com/weirlimit/weir/internal/ruleset/rulefile"
	"github.com/weirlimit/weir/internal/ruleset/versions"
	"github.com/weirlimit/weir/internal/telemetry"
	"github.com/weirlimit/weir/internal/watch"
)

// loadTime bounds how long the start waits for Consul. After it the copy counts.
const loadTime = 2 * time.Second

// ErrNoRules is the error of [Stored.Load] where neither what keeps them nor a copy has rules.
var ErrNoRules = errors.New("no rules yet: no version was applied or its store does not answer, and there is no copy")

// remedy is what to do without rules that can be used.
const remedy = "apply those that are wanted: `weir rules apply`, and for rules in store: `weir rules apply --admin HOST:PORT`"

// StoreConfig is what [NewStore] needs.
type StoreConfig struct {
	Store *versions.Store
	// Place names the store in messages, such as consul:dc1.
	Place string
	// Agent is that of Consul; only with Region and Datacenter.
	Agent *consul.Agent
	// Datacenter is the one that has the rules; empty: the agent's own, or they are not in Consul.
	Datacenter string
	// Region is whose copy is kept in the agent's own datacenter if another one has the rules; empty: none.
	Region string
	// Copy is the file that keeps the rules in force for a start without Consul; empty: none.
	Copy string
	// Apply puts rules in force. It is called by Load and Run only; an error rejects the
	// rules until they are tried again.
	Apply   func(*rule.Set) error
	Log     *slog.Logger
	Metrics *telemetry.Registry
}

// Stored follows the rules in Consul's key-value store. Make it with [NewStore].
type Stored struct {
	*watch.Watcher
	cfg    StoreConfig
	store  *versions.Store
	copies []*keptCopy
	signal chan struct{}

	inForce *rule.Set // nil: none yet; belongs to the goroutine that calls Load or Run of the watcher

	mu    sync.Mutex
	files []rulefile.File // as the store, or the copy, last had them
	err   error           // instead of files
}

// NewStore makes what follows the rules. [Stored.Load] puts the first in force; the watcher's
// Run and [Stored.Follow] have to run, too.
func NewStore(c StoreConfig) *Stored {
	s := &Stored{cfg: c, store: c.Store, signal: make(chan struct{}, 1), err: ErrNoRules}
	s.copies = newCopies(&c)
	s.Watcher = watch.New(watch.Config{
		What: "rules", Path: c.Place, Read: s.read, Parse: s.parse, Changed: s.signal, Whole: true, Log: c.Log, Metrics: c.Metrics,
	})
	return s
}

// Load puts in force what Consul has or, where that cannot be used or Consul does not answer in time, the newest copy
// that can be used. The error is [ErrNoRules] if nobody has any.
func (s *Stored) Load(ctx context.Context) error {
	files, err := s.fetch(ctx)
	candidate, err := s.usable(files, err)
	if err != nil {
		s.cfg.Log.Warn("rules: cannot use the rules of the store; looking for a copy", "store", s.cfg.Place, "error", err)
		if files, candidate = s.newestCopy(); files == nil {
			if !errors.Is(err, ErrNoRules) {
				err = fmt.Errorf("%w; at the start: %w", ErrNoRules, err)
			}
			return err
		}
	}
	s.set(files, nil)
	return s.Begin(files, candidate)
}

// usable parses files that were read, unless that failed.
func (s *Stored) usable(files []rulefile.File, err error) (watch.Candidate, error) {
	if err == nil {
		err = due(files)
	}
	if err != nil {
		return watch.Candidate{}, err
	}
	return s.parse(files)
}

// newestCopy is the newest copy that can be used; nil: there is none.
func (s *Stored) newestCopy() (newest []rulefile.File, of watch.Candidate) {
	where := ""
	for _, c := range s.copies {
		files := c.load()
		if len(files) == 0 {
			continue
		}
		candidate, err := s.usable(files, nil)
		switch {
		case err != nil:
			s.cfg.Log.Error("rules: a copy cannot be used", "copy", c.where, "error", err)
		case newest == nil || candidate.Revision > of.Revision:
			where, newest, of = c.where, files, candidate
		}
	}
	if newest != nil {
		s.cfg.Log.Info("rules: using a copy", "copy", where)
	}
	return newest, of
}

// fetch asks Consul once, for loadTime.
func (s *Stored) fetch(ctx context.Context) ([]rulefile.File, error) {
	ctx, cancel := context.WithTimeout(ctx, loadTime)
	defer cancel()
	v, err := s.store.Current(ctx)
	if err != nil || v.Zero() {
		return nil, cmp.Or(err, ErrNoRules)
	}
	content, err := s.store.Content(ctx, v)
	if err != nil {
		return nil, err
	}
	return filesOf(v, content), nil
}

// Follow follows Consul, and keeps the copies, until ctx ends.
func (s *Stored) Follow(ctx context.Context) error {
	tasks, ctx := errgroup.WithContext(ctx)
	tasks.Go(func() error { return s.store.Follow(ctx, s.take) })
	for _, c := range s.copies {
		tasks.Go(func() error { return c.run(ctx) })
	}
	return tasks.Wait()
}

// take takes the manifest. An error is one of Consul, which is asked again.
func (s *Stored) take(ctx context.Context, manifest consul.Pair) error {
	if manifest.Index == 0 {
		s.set(nil, fmt.Errorf("no rules have been applied: %s is missing; %s", manifest.Key, remedy))
		return nil
	}
	v, err := versions.ParseVersion(manifest.Key, manifest.Value)
	var content versions.Content
	if err == nil {
		ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
		defer cancel()
		content, err = s.store.Content(ctx, v)
		if err != nil && !errors.As(err, new(*versions.DamagedError)) {
			return err
		}
	}
	if err != nil {
		s.set(nil, err)
		return nil
	}
	s.set(filesOf(v, content), nil)
	return nil
}

// set has the watcher read files, or the error.
func (s *Stored) set(files []rulefile.File, err error) {
	s.mu.Lock()
	s.files, s.err = files, err
	s.mu.Unlock()
	select {
	case s.signal <- struct{}{}:
	default:
	}
}

func (s *Stored) read() ([]rulefile.File, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return nil, s.err
	}
	return s.files, due(s.files)
}

// filesOf has a version as files: manifest, document and amendments, whose data may be nil.
func filesOf(v versions.Version, c versions.Content) []rulefile.File {
	return []rulefile.File{{Name: "manifest", Data: v.Encode()}, {Name: fmt.Sprintf("revision %d", v.Revision), Data: c.Document}, {Name: "amendments", Data: c.Amendments}}
}

// contentOf is the reverse of filesOf.
func contentOf(files []rulefile.File) versions.Content {
	return versions.Content{Document: files[1].Data, Amendments: files[2].Data}
}

// versionOf reads the manifest of files.
func versionOf(files []rulefile.File) (versions.Version, error) {
	return versions.ParseVersion(files[0].Name, files[0].Data)
}

// due is the error of files whose version is from the future, for as long as it is.
func due(files []rulefile.File) error {
	v, err := versionOf(files)
	if err != nil {
		return err
	}
	return v.Due(time.Now())
}

func (s *Stored) parse(files []rulefile.File) (watch.Candidate, error) {
	v, err := versionOf(files)
	if err != nil {
		return watch.Candidate{}, err
	}
	content := contentOf(files)
	if err := v.Check(content); err != nil {
		return watch.Candidate{}, err
	}
	d, amendments, err := content.Parse(files[1].Name)
	if err != nil {
		return watch.Candidate{}, err
	}
	set := amend.Merge(d, amendments).Numbered(v.Revision)
	problems := amendments.Problems()
	return watch.Candidate{
		Version: set.Content, Revision: set.Revision,
		Apply: func() error {
			for _, problem := range problems {
				s.cfg.Log.Warn("rules: an amendment does not fit and is not in force", "revision", v.Revision, "problem", problem)
			}
			return s.apply(set, files)
		},
		About: []any{"rules", set.Len(), "amendments", len(amendments.Entries) - len(problems), "revision", set.Number(), "who", v.Who, "why", v.Why},
	}, nil
}

// apply puts rules in force, unless they are older than those in force. What is in force is from the future if the clock
// was wrong: then everything is newer.
func (s *Stored) apply(set *rule.Set, files []rulefile.File) error {
	if old := s.inForce; old != nil && set.Revision <= old.Revision && !versions.Ahead(old.Number(), time.Now()) {
		if set.Content == old.Content {
			return nil
		}
		return fmt.Errorf("revision %d is older than revision %d in force: the store was restored or is another one, or a copy was newer; %s",
			set.Number(), old.Number(), remedy)
	}
	if err := s.cfg.Apply(set); err != nil {
		return err
	}
	s.inForce = set.WithoutKeys()
	for _, c := range s.copies {
		c.keep(files)
	}
	return nil
}
