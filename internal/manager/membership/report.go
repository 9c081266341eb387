package membership

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"

	"github.com/espalier-dev/espalier/internal/shard"
)

const (
	// reportsAnnotation has the reports of a replica, by topic.
	reportsAnnotation = "espalier.dev/reports"
	// reportInterval is the minimum time between two writes of reports.
	reportInterval = time.Second
	// maxReports bounds the reports of a replica, in bytes. The API server allows 256 KiB of annotations.
	maxReports = 128 << 10
)

// Slots are those whose objects this process reconciles.
func (m *Membership) Slots() shard.Set { return m.held() }

// OnReport sets the function that is called when a report of another replica has changed. It must not block.
func (m *Membership) OnReport(changed func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.reportChanged = changed
}

// Publish replaces the report on a topic, or removes it if it is nil. It is written within reportInterval. A
// report must be JSON.
func (m *Membership) Publish(topic string, report []byte) {
	m.mu.Lock()
	before, had := m.reports[topic]
	same := had == (report != nil) && string(before) == string(report)
	if report == nil {
		delete(m.reports, topic)
	} else {
		m.reports[topic] = report
	}
	m.reportsDirty = m.reportsDirty || !same
	m.mu.Unlock()
	if !same {
		m.planAgain()
	}
}

// Reports returns the other replicas' reports on a topic.
func (m *Membership) Reports(topic string) (out [][]byte) {
	m.mu.Lock()
	own := m.own
	m.mu.Unlock()
	if own == nil {
		return nil
	}
	for _, text := range m.records.annotations(own.id, reportsAnnotation) {
		var all map[string]json.RawMessage
		if json.Unmarshal([]byte(text), &all) == nil && all[topic] != nil {
			out = append(out, all[topic])
		}
	}
	return out
}

// writeReports writes the reports if they have changed, and returns when they can be written; zero if they need not.
func (m *Membership) writeReports(ctx context.Context, own *ownRecord) (due time.Time, err error) {
	m.mu.Lock()
	if !m.reportsDirty {
		m.mu.Unlock()
		return time.Time{}, nil
	}
	if due := m.reportedAt.Add(reportInterval); time.Now().Before(due) {
		m.mu.Unlock()
		return due, nil
	}
	text, err := json.Marshal(m.reports)
	m.reportsDirty, m.reportedAt = false, time.Now()
	m.mu.Unlock()
	switch {
	case err != nil:
		return time.Time{}, fmt.Errorf("encode reports: %w", err)
	case len(text) > maxReports:
		m.Log.Info("the reports of this replica are too large; rollouts that wait for its instances continue when others have ended", "bytes", len(text), "of", maxReports)
		return time.Time{}, nil
	}
	err = own.change(ctx, func(l *coordinationv1.Lease) { annotate(l, reportsAnnotation, string(text)) })
	if err != nil {
		m.mu.Lock()
		m.reportsDirty = true
		m.mu.Unlock()
		return time.Time{}, fmt.Errorf("write reports: %w", err)
	}
	return time.Time{}, nil
}
