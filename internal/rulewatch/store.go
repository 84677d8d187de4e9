package rulewatch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/weirlimit/weir/internal/discovery"
	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/rulefile"
	"github.com/weirlimit/weir/internal/rulestore"
	"github.com/weirlimit/weir/internal/telemetry"
	"github.com/weirlimit/weir/internal/watch"
)

// loadTime bounds how long the start waits for Consul. After it the copy counts.
const loadTime = 2 * time.Second

// ErrNoRules is the error of [Stored.Load] where neither Consul nor a copy has rules.
var ErrNoRules = errors.New("no rules yet: Consul has none or does not answer, and there is no copy of earlier ones")

// StoreConfig is what [NewStore] needs.
type StoreConfig struct {
	Agent      *discovery.Agent
	Datacenter string // that has the rules; empty: the agent's own
	// Copy is the file that keeps the rules in force for a start without Consul; empty: none.
	Copy string
	// Apply puts rules in force. It is called by Load and Run only; an error refuses the
	// rules until they are tried again.
	Apply   func(*rule.Set) error
	Log     *slog.Logger
	Metrics *telemetry.Registry
}

// Stored follows the rules in Consul's key-value store. Make it with [NewStore].
type Stored struct {
	*watch.Watcher
	cfg    StoreConfig
	store  *rulestore.Store
	follow *discovery.Follow
	copies []*keptCopy
	signal chan struct{}

	inForce *rule.Set // nil: none yet; belongs to the goroutine that calls Load or Run of the watcher

	mu    sync.Mutex
	files []rulefile.File // as Consul, or the copy, last had them: manifest and document
	err   error           // instead of files
}

// NewStore makes what follows the rules. [Stored.Load] puts the first in force; the watcher's
// Run and [Stored.Follow] have to run, too.
func NewStore(c StoreConfig) *Stored {
	kv := c.Agent.KV(c.Datacenter)
	s := &Stored{cfg: c, store: rulestore.New(c.Agent, c.Datacenter, rulestore.Prefix), signal: make(chan struct{}, 1), err: ErrNoRules}
	s.follow = c.Agent.Follow("rules", kv, s.store.ManifestKey(), s.take)
	s.copies = newCopies(&c)
	s.Watcher = watch.New(watch.Config{
		What: "rules", Path: "consul:" + c.Datacenter, Read: s.read, Parse: s.parse, Changed: s.signal, Whole: true, Log: c.Log, Metrics: c.Metrics,
	})
	return s
}

// Load puts in force what Consul has or, where a copy is newer or Consul does not answer in
// time, the newest copy. The error is [ErrNoRules] if nobody has any.
func (s *Stored) Load(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, loadTime)
	defer cancel()
	files, err := s.fetch(ctx)
	if err != nil {
		s.cfg.Log.Warn("rules: none in Consul can be used; the last copy is", "error", err)
	}
	for _, c := range s.copies {
		if kept := c.load(); kept != nil && revision(kept) > revision(files) {
			files = kept
			s.cfg.Log.Info("rules: a copy is newer", "copy", c.where)
		}
	}
	if files == nil {
		return ErrNoRules
	}
	s.set(files, nil)
	return s.Watcher.Load()
}

// revision is that of files; 0 if they cannot be used.
func revision(files []rulefile.File) uint64 {
	if files == nil {
		return 0
	}
	v, _, err := parsed(files)
	if err != nil {
		return 0
	}
	return v.Revision
}

// fetch asks Consul once. The error is also that its rules have a mistake.
func (s *Stored) fetch(ctx context.Context) ([]rulefile.File, error) {
	v, err := s.store.Current(ctx)
	if err != nil || v.Zero() {
		return nil, cmp.Or(err, ErrNoRules)
	}
	document, err := s.store.Document(ctx, v)
	if err != nil {
		return nil, err
	}
	files := filesOf(v, document)
	if _, _, err = parsed(files); err != nil {
		return nil, err
	}
	return files, nil
}

// Follow follows Consul, and keeps the copies, until ctx ends.
func (s *Stored) Follow(ctx context.Context) error {
	tasks, ctx := errgroup.WithContext(ctx)
	tasks.Go(func() error { return s.follow.Run(ctx) })
	for _, c := range s.copies {
		tasks.Go(func() error { return c.run(ctx) })
	}
	return tasks.Wait()
}

// take takes the manifest. An error is one of Consul, which is asked again.
func (s *Stored) take(ctx context.Context, manifest discovery.Pair) error {
	if manifest.Index == 0 {
		s.set(nil, fmt.Errorf("no rules have been applied: %s is missing; use `weir apply`", manifest.Key))
		return nil
	}
	v, err := rulestore.ParseVersion(manifest.Key, manifest.Value)
	var document []byte
	if err == nil {
		ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
		defer cancel()
		document, err = s.store.Document(ctx, v)
		if err != nil && !errors.As(err, new(*rulestore.DamagedError)) {
			return err
		}
	}
	if err != nil {
		s.set(nil, err)
		return nil
	}
	s.set(filesOf(v, document), nil)
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
	return s.files, s.err
}

// filesOf has a version as files.
func filesOf(v rulestore.Version, document []byte) []rulefile.File {
	return []rulefile.File{{Name: "manifest", Data: v.Encode()}, {Name: fmt.Sprintf("version %d", v.Number), Data: document}}
}

// parsed is what files are.
func parsed(files []rulefile.File) (rulestore.Version, *rule.Set, error) {
	v, err := rulestore.ParseVersion(files[0].Name, files[0].Data)
	if err != nil {
		return rulestore.Version{}, nil, err
	}
	if err := v.Check(files[1].Data); err != nil {
		return rulestore.Version{}, nil, err
	}
	set, err := rulestore.Parse(files[1].Name, files[1].Data)
	if err != nil {
		return rulestore.Version{}, nil, err
	}
	return v, set.Numbered(v.Revision), nil
}

func (s *Stored) parse(files []rulefile.File) (watch.Candidate, error) {
	v, set, err := parsed(files)
	if err != nil {
		return watch.Candidate{}, err
	}
	return watch.Candidate{
		Version: set.Content, Revision: set.Revision,
		Apply: func() error { return s.apply(v, set, files) },
		About: []any{"rules", set.Len(), "number", v.Number, "revision", set.Number(), "who", v.Who, "why", v.Why},
	}, nil
}

// apply puts rules in force, unless they are older than those in force.
func (s *Stored) apply(v rulestore.Version, set *rule.Set, files []rulefile.File) error {
	if old := s.inForce; old != nil && set.Revision <= old.Revision {
		if set.Content == old.Content {
			return nil
		}
		return fmt.Errorf("version %d with revision %d is older than the rules in force, which have revision %d: Consul has been restored, or this is another Consul; use `weir apply` for the rules that are wanted",
			v.Number, set.Number(), old.Number())
	}
	if err := s.cfg.Apply(set); err != nil {
		return err
	}
	s.inForce = set
	for _, c := range s.copies {
		c.keep(files)
	}
	return nil
}
