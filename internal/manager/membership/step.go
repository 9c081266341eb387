package membership

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/espalier-dev/espalier/internal/kube/fence"
	"github.com/espalier-dev/espalier/internal/shard"
)

// takeSteps does what shard.Planner decides, each time that something has changed, until the context ends. It returns
// errExpired once the Lease is lost; other errors are logged, and the step is retried.
func (m *Membership) takeSteps(ctx context.Context, own *ownRecord) error {
	var groupDue time.Time
	var waitsFor string
	for {
		next, err := m.takeStep(ctx, own, &groupDue)
		var other *heldByOther
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.As(err, &other):
			if waitsFor != other.holder {
				waitsFor = other.holder
				m.Log.Info(other.Error())
			}
			m.release(m.held(), true)
			next = time.Now().Add(min(other.left, m.retryPeriod()))
		case errors.Is(err, errExpired):
			return err
		case err != nil:
			m.Log.Error(err, "cannot agree with the other replicas on who reconciles what; retrying")
			next = time.Now().Add(m.retryPeriod())
		default:
			waitsFor = ""
		}
		timer := time.NewTimer(time.Until(next))
		select {
		case <-ctx.Done():
		case <-m.changed:
		case <-timer.C:
		}
		timer.Stop()
		if ctx.Err() != nil {
			return nil
		}
	}
}

// takeStep does what is due, and returns when to continue if nothing changes. groupDue is when this replica is to renew the
// group's Lease next.
func (m *Membership) takeStep(ctx context.Context, own *ownRecord, groupDue *time.Time) (next time.Time, err error) {
	if err := m.acquireGroup(ctx); err != nil {
		return next, err
	}
	next, agreed, err := m.agree(ctx, own)
	if err != nil || !agreed {
		return next, err
	}
	reportsDue, err := m.writeReports(ctx, own)
	if err != nil {
		return next, err
	}
	renewal, err := m.renewGroup(ctx, groupDue)
	return earliest(next, reportsDue, renewal), err
}

// acquireGroup acquires the group's Lease from a leader without sharding. It returns heldByOther until that has stopped.
func (m *Membership) acquireGroup(ctx context.Context) error {
	if holder := m.records.groupHolder(); holder == "" || holder == GroupHolder {
		return nil
	}
	_, err := m.group.advance(ctx)
	return err
}

// agree carries out the planner's steps, and returns when the next is due if nothing changes. The replica has agreed with
// the others once there is no step; before that, it continues when the watch has delivered its own writes.
func (m *Membership) agree(ctx context.Context, own *ownRecord) (next time.Time, agreed bool, err error) {
	for {
		self, version := own.published()
		m.setAssigned(self)
		peers, read, expires := m.records.peers(self.ID, version, time.Now())
		if !read {
			return time.Now().Add(m.Duration), false, nil
		}
		if !m.records.has(self.ID) {
			return next, false, errExpired // the others take over
		}
		step := m.planner.Next(shard.State{Self: self, Read: read, Peers: peers, Held: m.held()})
		if step.IsZero() {
			return earliest(time.Now().Add(m.Duration), expires), true, nil
		}
		if err := m.carryOut(ctx, own, step); err != nil {
			return next, false, err
		}
		if step.Publish != nil {
			published, _ := own.published()
			m.setAssigned(published) // before others have released the slots
		}
		if len(step.Expel) > 0 || step.Publish != nil {
			return time.Now().Add(m.retryPeriod()), false, nil
		}
	}
}

// renewGroup renews the group's Lease if that is due. One replica does so: the one that reconciles the first slot. It
// returns when the next renewal is due; zero for another replica.
func (m *Membership) renewGroup(ctx context.Context, due *time.Time) (time.Time, error) {
	if !m.held().Has(0) {
		return time.Time{}, nil
	}
	if !time.Now().Before(*due) {
		if err := m.group.renew(ctx); err != nil {
			return time.Time{}, err
		}
		*due = time.Now().Add(m.Duration / 3)
	}
	return *due, nil
}

// earliest returns the first of some times, of which those that are zero do not count.
func earliest(times ...time.Time) (first time.Time) {
	for _, t := range times {
		if !t.IsZero() && (first.IsZero() || t.Before(first)) {
			first = t
		}
	}
	return first
}

// carryOut does the parts of a step in their order, until one fails.
func (m *Membership) carryOut(ctx context.Context, own *ownRecord, step shard.Step) error {
	for _, id := range step.Expel {
		m.Log.Info("a replica has not renewed its Lease in time; the others take over its work", "replica", id)
		if err := m.records.expel(ctx, id); err != nil {
			return fmt.Errorf("delete the expired Lease of %s: %w", id, err)
		}
	}
	m.release(step.Release, false)
	if step.Publish != nil {
		if err := own.publish(ctx, step.Publish); err != nil {
			return fmt.Errorf("publish the replicas that share the work: %w", err)
		}
		m.Log.V(1).Info("the replicas that share the work", "replicas", step.Publish)
	}
	if step.Take.IsEmpty() {
		return nil
	}
	epoch, err := m.group.advance(ctx)
	if err != nil {
		return err
	}
	m.take(own, step.Take, epoch)
	return nil
}

// setAssigned records what a published view assigns to this process. What was released before is not among it, and
// nothing is taken that is not.
func (m *Membership) setAssigned(self shard.Record) {
	if len(self.View) == 0 {
		return // it is about to have one, perhaps the former
	}
	assigned := m.planner.Assigned(self)
	m.mu.Lock()
	changed := m.assigned != assigned
	m.assigned = assigned
	m.mu.Unlock()
	if changed && m.reassigned != nil {
		m.reassigned()
	}
}

// take begins the work on slots.
func (m *Membership) take(own *ownRecord, slots shard.Set, epoch int64) {
	now := time.Now()
	m.mu.Lock()
	for slot := range slots.All() {
		t := &tenure{Tenure: fence.Tenure{Holder: own.id, Epoch: epoch, Taken: now, Until: own.until}, drained: make(chan struct{})}
		t.ctx, t.cancel = context.WithCancel(context.Background())
		m.tenures[slot] = t
	}
	count := len(m.tenures)
	m.mu.Unlock()
	m.Log.Info("this replica reconciles more objects", "taken", slots.Len(), "slots", count, "of", shard.Slots, "epoch", epoch)
	select {
	case <-m.joined:
	default:
		close(m.joined)
	}
	if m.moved != nil {
		m.moved(slots)
	}
}

// release ends the work on slots, and returns once no reconcile of their objects runs. Reconciles have some time
// to end by themselves, unless the slots are lost already.
func (m *Membership) release(slots shard.Set, lost bool) {
	if slots.IsEmpty() {
		return
	}
	m.mu.Lock()
	var ending []*tenure
	for slot := range slots.All() {
		if t := m.tenures[slot]; t != nil {
			ending = append(ending, t)
			delete(m.tenures, slot)
			t.close()
		}
	}
	count := len(m.tenures)
	m.mu.Unlock()
	if len(ending) == 0 {
		return
	}
	m.drain(ending, lost)
	m.Log.Info("this replica reconciles fewer objects", "released", len(ending), "slots", count, "of", shard.Slots)
	if m.moved != nil {
		m.moved(slots)
	}
}

// drain waits until no reconcile of some tenures runs, and ends them. It cancels the reconciles that run for longer than
// Grace, or at once if the slots are lost.
func (m *Membership) drain(ending []*tenure, lost bool) {
	wait := m.Grace
	if lost {
		wait = 0
	}
	grace := time.NewTimer(wait)
	defer grace.Stop()
	awaitDrained(ending, grace.C)
	for _, t := range ending { // all of them before the wait: a reconcile may wait for one of another slot
		t.End()
		t.cancel()
	}
	awaitDrained(ending, nil)
}
