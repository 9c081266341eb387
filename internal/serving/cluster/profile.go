package cluster

import (
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/telemetry"
	"github.com/espalier-dev/espalier/internal/telemetry/profile"
)

// Profile returns what was measured of the kinds that controllers run for, with their objects as they are cached.
func (k *Cluster) Profile(now time.Time) profile.Reading {
	served := map[schema.GroupKind]schema.GroupVersionKind{}
	for _, gvk := range k.Engine.Kinds() {
		served[gvk.GroupKind()] = gvk
	}
	out := profile.Reading{Kinds: []profile.Kind{}}
	for _, q := range k.Engine.Stats() {
		kind := profile.Kind{Group: q.Kind.Group, Kind: q.Kind.Kind, Waiting: q.Depth, Active: q.Active, Retries: q.Retries}
		if !q.Since.IsZero() {
			kind.OldestSeconds = max(now.Sub(q.Since), 0).Seconds()
		}
		if gvk, ok := served[q.Kind]; ok {
			for _, o := range k.Hub.Select(gvk, "", labels.Everything()) {
				kind.Instances++
				if telemetry.IsReady(o) {
					kind.Ready++
				} else if !telemetry.ReportsReadiness(o) {
					kind.Unreported++
				}
			}
		}
		out.Kinds = append(out.Kinds, kind)
	}
	k.Profiler.Fill(&out, now)
	return out
}
