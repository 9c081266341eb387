package shard_test

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/espalier-dev/espalier/internal/shard"
)

// duration is how long a record is valid after its renewal, in ticks of the model's clock.
const duration = 10

// store is an API server: records, and a log of their changes, which replicas read with a delay.
type store struct {
	records map[string]entry
	log     []change
	epoch   int64
}

type entry struct {
	shard.Record
	version int // the length of the log after the write
}

type change struct {
	id      string
	deleted bool
	entry
}

func (s *store) write(r shard.Record) int {
	e := entry{r, len(s.log) + 1}
	s.records[r.ID] = e
	s.log = append(s.log, change{id: r.ID, entry: e})
	return e.version
}

// deleteIf deletes a record if it has this version.
func (s *store) deleteIf(id string, version int) {
	if e, ok := s.records[id]; ok && e.version == version {
		delete(s.records, id)
		s.log = append(s.log, change{id: id, deleted: true})
	}
}

// replica is a process: it reads the log up to its cursor, and works on what it holds.
type replica struct {
	id        string
	planner   shard.Planner
	self      shard.Record
	version   int // of its last write
	renewed   int // when it sent its last successful renewal
	cursor    int
	peers     map[string]seen
	held      shard.Set
	epochs    map[shard.Slot]int64
	releasing *shard.Step // slots were released, and the view is published in a later step
	dead      bool
}

type seen struct {
	entry
	since int // when the version was seen first
}

// reporter is a test, or a check of rapid.
type reporter interface {
	Fatalf(string, ...any)
	Errorf(string, ...any)
}

type model struct {
	t        reporter
	now      int
	store    store
	replicas []*replica
	joined   int
	// last is the epoch of the last replica that took a slot.
	last map[shard.Slot]int64
}

func newModel(t reporter) *model {
	return &model{t: t, store: store{records: map[string]entry{}}, last: map[shard.Slot]int64{}}
}

func (m *model) running() (out []*replica) {
	for _, r := range m.replicas {
		if !r.dead {
			out = append(out, r)
		}
	}
	return out
}

// works reports whether the replica may act on what it holds.
func (m *model) works(r *replica) bool { return !r.dead && m.now < r.renewed+duration }

func (m *model) join() {
	m.joined++
	r := &replica{id: fmt.Sprintf("replica-%d", m.joined), peers: map[string]seen{}, epochs: map[shard.Slot]int64{}, renewed: m.now}
	r.self = shard.Record{ID: r.id}
	r.version = m.store.write(r.self)
	m.replicas = append(m.replicas, r)
}

// read advances a replica's cursor by some changes.
func (m *model) read(r *replica, n int) {
	for ; n > 0 && r.cursor < len(m.store.log); n-- {
		c := m.store.log[r.cursor]
		r.cursor++
		switch {
		case c.id == r.id:
		case c.deleted:
			delete(r.peers, c.id)
		default:
			r.peers[c.id] = seen{c.entry, m.now}
		}
	}
}

// act does the next step, or the second half of one. A replica whose lease has expired, or was
// deleted, begins again as another one.
func (m *model) act(r *replica) {
	if _, ok := m.store.records[r.id]; !ok || m.now >= r.renewed+duration {
		r.dead, r.held = true, shard.Set{}
		return
	}
	if r.releasing != nil {
		r.self.View = r.releasing.Publish
		r.version, r.renewed, r.releasing = m.store.write(r.self), m.now, nil
		return
	}
	state := shard.State{Self: r.self, Read: r.cursor >= r.version, Held: r.held}
	for _, peer := range r.peers {
		state.Peers = append(state.Peers, shard.Peer{Record: peer.Record, Expired: m.now > peer.since+duration})
	}
	step := r.planner.Next(state)
	for _, id := range step.Expel {
		m.store.deleteIf(id, r.peers[id].version)
	}
	r.held = r.held.Without(step.Release)
	if step.Publish != nil {
		r.releasing = &step
	}
	if !step.Take.IsEmpty() {
		m.take(r, step.Take)
	}
	if outside := r.held.Without(r.planner.Assigned(r.self)); step.Publish == nil && !outside.IsEmpty() {
		m.t.Fatalf("%s holds %d slots that it is not assigned", r.id, outside.Len())
	}
}

func (m *model) take(r *replica, slots shard.Set) {
	m.store.epoch++
	for slot := range slots.All() {
		if was := m.last[slot]; was >= m.store.epoch {
			m.t.Fatalf("slot %d is taken with epoch %d after %d", slot, m.store.epoch, was)
		}
		m.last[slot], r.epochs[slot] = m.store.epoch, m.store.epoch
	}
	r.held = r.held.Union(slots)
}

func (m *model) renew(r *replica) {
	if _, ok := m.store.records[r.id]; ok && m.now < r.renewed+duration {
		r.version, r.renewed = m.store.write(r.self), m.now
	}
}

func (m *model) leave(r *replica) {
	r.held, r.dead = shard.Set{}, true
	m.store.deleteIf(r.id, m.store.records[r.id].version)
}

// pick draws a replica that runs.
func (m *model) pick(t *rapid.T, name string) *replica {
	running := m.running()
	if len(running) == 0 {
		t.Skip()
	}
	return running[rapid.IntRange(0, len(running)-1).Draw(t, name)]
}

// inTime runs a replica for long enough that it does a few steps.
func (m *model) inTime(r *replica) {
	for range 3 {
		m.renew(r)
		m.read(r, len(m.store.log))
		m.act(r)
		m.check()
	}
}

// check finds slots on which two replicas work.
func (m *model) check() {
	by := map[shard.Slot]string{}
	for _, r := range m.replicas {
		if !m.works(r) {
			continue
		}
		for slot := range r.held.All() {
			if other, taken := by[slot]; taken {
				m.t.Fatalf("%s and %s work on slot %d", other, r.id, slot)
			}
			by[slot] = r.id
		}
	}
}

// settle lets all replicas run until nothing changes, and then each slot is worked on.
func (m *model) settle() {
	if len(m.running()) == 0 {
		m.join()
	}
	m.rounds(3 * duration)
	m.checkSettled()
}

// rounds lets all replicas take a step each, in each of some ticks.
func (m *model) rounds(ticks int) {
	for range ticks {
		m.now++
		for _, r := range m.running() {
			m.renew(r)
			m.read(r, len(m.store.log))
			m.act(r)
		}
		m.check()
		if len(m.running()) == 0 {
			m.join() // all had expired
		}
	}
}

// checkSettled finds slots on which nobody works, and replicas that have too many.
func (m *model) checkSettled() {
	var all shard.Set
	for _, r := range m.running() {
		all = all.Union(r.held)
	}
	if all.Len() != shard.Slots {
		m.t.Fatalf("%d of %d slots are worked on by %d replicas", all.Len(), shard.Slots, len(m.running()))
	}
	for _, r := range m.running() {
		if mean := shard.Slots / len(m.running()); r.held.Len() > mean*11/10+1 {
			m.t.Errorf("%s holds %d slots of %d, the mean is %d", r.id, r.held.Len(), shard.Slots, mean)
		}
	}
}

// TestNoTwoReplicasWorkOnASlot runs replicas that read late, stop, are suspended beyond the end of their
// lease, and join at any time.
func TestNoTwoReplicasWorkOnASlot(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newModel(t)
		for range rapid.IntRange(1, 4).Draw(t, "replicas") {
			m.join()
		}
		t.Repeat(map[string]func(*rapid.T){
			"time": func(t *rapid.T) { m.now += rapid.IntRange(1, duration/3).Draw(t, "ticks") },
			"join": func(*rapid.T) {
				if len(m.running()) < 6 {
					m.join()
				}
			},
			"crash":       func(t *rapid.T) { m.pick(t, "crashes").dead = true },
			"leave":       func(t *rapid.T) { m.leave(m.pick(t, "leaves")) },
			"read":        func(t *rapid.T) { m.read(m.pick(t, "reads"), rapid.IntRange(1, 8).Draw(t, "changes")) },
			"act":         func(t *rapid.T) { m.act(m.pick(t, "acts")) },
			"renew":       func(t *rapid.T) { m.renew(m.pick(t, "renews")) },
			"one in time": func(t *rapid.T) { m.inTime(m.pick(t, "runs")) },
			"all in time": func(*rapid.T) {
				for _, r := range m.running() {
					m.inTime(r)
				}
			},
			"all but one in time": func(t *rapid.T) {
				late := m.pick(t, "is late")
				for _, r := range m.running() {
					if r != late {
						m.inTime(r)
					}
				}
			},
			"": func(*rapid.T) { m.check() },
		})
		m.settle()
	})
}

// TestManyReplicasJoinAtOnce starts up to a hundred replicas at once, and then restarts some of them, one after
// the other.
func TestManyReplicasJoinAtOnce(t *testing.T) {
	for _, n := range []int{1, 2, 10, 100} {
		m := newModel(t)
		for range n {
			m.join()
		}
		for _, restarted := range slices.Clone(m.replicas[:min(n, 3)]) {
			m.rounds(8)
			m.leave(restarted)
			m.join()
		}
		m.rounds(8)
		m.checkSettled()
	}
}

// TestSlotsNeverChange has the slots of some objects: replicas of two versions must agree.
func TestSlotsNeverChange(t *testing.T) {
	for _, c := range []struct {
		namespace, name string
		want            shard.Slot
	}{{"default", "any", 398}, {"default", "other", 398}, {"team-a", "any", 227}, {"", "team-a", 227}, {"", "cluster-scoped", 267}} {
		if got := shard.SlotOf(c.namespace, c.name); got != c.want {
			t.Errorf("%s/%s is in slot %d, want %d", c.namespace, c.name, got, c.want)
		}
	}
}
