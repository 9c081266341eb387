package shard_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/espalier-dev/espalier/internal/shard"
)

func TestNextStep(t *testing.T) {
	one, both := shard.NewView("a"), shard.NewView("a", "b")
	alone, shared := one.Assign().Of("a"), both.Assign().Of("a")
	peer := func(id string, view shard.View) shard.Peer {
		return shard.Peer{Record: shard.Record{ID: id, View: view}}
	}
	expired := peer("b", both)
	expired.Expired = true
	cases := map[string]struct {
		state shard.State
		want  shard.Step
	}{
		"a new replica publishes its view before it takes anything": {
			shard.State{Self: shard.Record{ID: "a"}, Read: true},
			shard.Step{Publish: one},
		},
		"it takes nothing before it has read the others' records after that": {
			shard.State{Self: shard.Record{ID: "a", View: one}},
			shard.Step{},
		},
		"it takes all slots if it is alone": {
			shard.State{Self: shard.Record{ID: "a", View: one}, Read: true},
			shard.Step{Take: alone},
		},
		"it does nothing once it has them": {
			shard.State{Self: shard.Record{ID: "a", View: one}, Read: true, Held: alone},
			shard.Step{},
		},
		"it releases slots before it publishes that another replica may take them": {
			shard.State{Self: shard.Record{ID: "a", View: one}, Read: true, Held: alone, Peers: []shard.Peer{peer("b", nil)}},
			shard.Step{Release: alone.Without(shared), Publish: both},
		},
		"it releases them even if it has not read the others' latest records": {
			shard.State{Self: shard.Record{ID: "a", View: one}, Held: alone, Peers: []shard.Peer{peer("b", nil)}},
			shard.Step{Release: alone.Without(shared), Publish: both},
		},
		"it takes no slot that another replica's view assigns to that one": {
			shard.State{Self: shard.Record{ID: "a", View: both}, Read: true, Peers: []shard.Peer{peer("b", shard.NewView("b"))}},
			shard.Step{},
		},
		"it takes its slots once the other replica has the same view": {
			shard.State{Self: shard.Record{ID: "a", View: both}, Read: true, Peers: []shard.Peer{peer("b", both)}},
			shard.Step{Take: shared},
		},
		"it takes only those that it lacks": {
			shard.State{Self: shard.Record{ID: "a", View: one}, Read: true, Held: shared},
			shard.Step{Take: alone.Without(shared)},
		},
		"it expels a replica whose Lease has expired, and does nothing else": {
			shard.State{Self: shard.Record{ID: "a", View: both}, Read: true, Held: shared, Peers: []shard.Peer{expired, peer("c", nil)}},
			shard.Step{Expel: []string{"b"}},
		},
		"it publishes the view without one that has left, and takes nothing yet": {
			shard.State{Self: shard.Record{ID: "a", View: both}, Read: true, Held: shared},
			shard.Step{Publish: one},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got := new(shard.Planner).Next(c.state)
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
			if zero := cmp.Equal(c.want, shard.Step{}); got.IsZero() != zero {
				t.Errorf("IsZero is %t", got.IsZero())
			}
		})
	}
}
