package membership

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/util/uuid"
	coordination "k8s.io/client-go/kubernetes/typed/coordination/v1"

	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/shard"
)

// Config is what a membership needs.
type Config struct {
	// Leases are those of the namespace that all replicas share.
	Leases coordination.LeaseInterface
	// Group is the name of the group's Lease. The replicas' Leases have names that begin with it.
	Group string
	// Duration is how long a record is valid after its renewal; a number of whole seconds.
	Duration time.Duration
	// Grace is how long reconciles may go on when their objects move to another replica; by default five seconds.
	Grace time.Duration
	Log   logr.Logger
}

// Membership is this process among the replicas. It is safe for concurrent use.
type Membership struct {
	Config
	planner shard.Planner
	// records has the Leases as the watch reports them.
	records *records
	group   *group
	// changed has room for one signal: that the planner may have another step.
	changed chan struct{}
	joined  chan struct{} // closed once the group's Lease is held

	mu sync.Mutex
	// own is the record of this process; nil while it has none.
	own     *ownRecord
	tenures map[shard.Slot]*tenure
	moved   func(shard.Set)
	// assigned is what Assigned returns, and reassigned what OnAssign was called with.
	assigned   shard.Set
	reassigned func()
	// resting is what Rest was called with, and restChanged what OnRest was.
	resting     string
	restChanged func()
	// reports are those of this process by topic, reportsDirty says that they are not written, and reportedAt when
	// they were written last. reportChanged is what OnReport was called with.
	reports       map[string]json.RawMessage
	reportsDirty  bool
	reportedAt    time.Time
	reportChanged func()
}

// New returns a membership that does nothing before Run.
func New(c Config) *Membership {
	if c.Grace <= 0 {
		c.Grace = 5 * time.Second
	}
	m := &Membership{Config: c, changed: make(chan struct{}, 1), joined: make(chan struct{}), tenures: map[shard.Slot]*tenure{}, reports: map[string]json.RawMessage{}}
	m.records = newRecords(c, m.peersChanged)
	m.group = &group{leases: c.Leases, name: c.Group, duration: c.Duration, lastEpoch: m.records.lastEpoch}
	return m
}

// OnMove sets the function that is called with slots that this process has taken or released. It must not
// block. It is to be called before Run.
func (m *Membership) OnMove(moved func(shard.Set)) { m.moved = moved }

// OnAssign sets the function that is called when the answer of Assigned has changed, by one goroutine. It must not
// block. It is to be called before Run.
func (m *Membership) OnAssign(reassigned func()) { m.reassigned = reassigned }

// Assigned are the slots that this process holds, and those that it takes once others have released them. There are
// none before it has joined the others. A process that has lost its Lease still returns what it was assigned before.
func (m *Membership) Assigned() shard.Set {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.assigned
}

// peersChanged calls the callbacks, and plans again: the record of another replica has changed.
func (m *Membership) peersChanged() {
	m.mu.Lock()
	callbacks := []func(){m.restChanged, m.reportChanged}
	m.mu.Unlock()
	for _, changed := range callbacks {
		if changed != nil {
			changed()
		}
	}
	m.planAgain()
}

// planAgain makes takeSteps ask the planner for the next step.
func (m *Membership) planAgain() {
	select {
	case m.changed <- struct{}{}:
	default:
	}
}

// Joined is closed once this process shares the work for the first time: no leader without sharding runs.
func (m *Membership) Joined() <-chan struct{} { return m.joined }

// Run takes part until the context ends. Then it releases all slots and deletes its record, so that other
// replicas take over at once. A process whose Lease has expired stops all work, and joins again.
func (m *Membership) Run(ctx context.Context) {
	watching, stop := context.WithCancel(context.WithoutCancel(ctx)) // until the record is deleted
	var all sync.WaitGroup
	all.Go(func() { m.records.run(watching) })
	defer all.Wait()
	defer stop()
	for ctx.Err() == nil {
		if err := m.incarnation(ctx); err != nil && ctx.Err() == nil {
			m.Log.Error(err, "this replica does no work until it has joined the others again")
			select {
			case <-ctx.Done():
			case <-time.After(m.retryPeriod()):
			}
		}
	}
}

// retryPeriod is how often a record is renewed, in the proportion of client-go's leader election.
func (c Config) retryPeriod() time.Duration { return c.Duration * 2 / 15 }

// incarnation takes part under one ID, until the context ends or the Lease is lost.
func (m *Membership) incarnation(ctx context.Context) (err error) {
	id, err := newID()
	if err != nil {
		return err
	}
	m.mu.Lock()
	resting := m.resting
	m.mu.Unlock()
	own, err := createRecord(ctx, m.Config, id, resting)
	if err != nil {
		return fmt.Errorf("create the Lease of this replica: %w", err)
	}
	m.mu.Lock()
	m.own, m.reportsDirty = own, len(m.reports) > 0
	m.mu.Unlock()
	defer func() { m.depart(own, errors.Is(err, errExpired)) }()
	running, cancel := context.WithCancel(ctx)
	defer cancel()
	parts, running := errgroup.WithContext(running)
	parts.Go(func() error { return own.renewUntilLost(running, m.retryPeriod()) })
	parts.Go(func() error { return m.takeSteps(running, own) })
	return parts.Wait()
}

// depart ends all work of an incarnation, and deletes its record. Its reconciles have no time to end if the record is lost:
// others take over.
func (m *Membership) depart(own *ownRecord, isLost bool) {
	m.release(m.held(), isLost || !own.isValid())
	ctx, cancel := context.WithTimeout(context.Background(), m.retryPeriod())
	defer cancel()
	if peers, _, _ := m.records.peers(own.id, "", time.Now()); len(peers) == 0 {
		if err := m.group.release(ctx); err != nil {
			m.Log.V(1).Info("the Lease of all replicas was not released; it expires", "reason", err.Error())
		}
	}
	if err := own.delete(ctx); err != nil {
		m.Log.V(1).Info("the Lease of this replica was not deleted; it expires", "reason", err.Error())
	}
	m.mu.Lock()
	m.own = nil
	m.mu.Unlock()
}

func newID() (string, error) {
	host, err := os.Hostname()
	if err != nil {
		return "", fmt.Errorf("get the host name: %w", err)
	}
	return host + "_" + string(uuid.NewUUID()), nil
}

// nameOf is the name of a replica's Lease.
func (c Config) nameOf(id string) string { return c.Group + "-" + object.Digest(id)[:10] }

// errExpired is the error of a record that was not renewed in time, or was deleted by another replica or by somebody else.
var errExpired = errors.New("the Lease of this replica has expired, or was deleted or changed")
