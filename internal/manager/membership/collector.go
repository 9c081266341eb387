package membership

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

var (
	slotsDescription    = prometheus.NewDesc("espalier_slots", "Slots of objects that this replica reconciles, of 512.", nil, nil)
	replicasDescription = prometheus.NewDesc("espalier_replicas", "Replicas that share the work, as this one knows.", nil, nil)
	epochDescription    = prometheus.NewDesc("espalier_epoch", "Epoch of the slots that this replica has taken last.", nil, nil)
)

// Describe is prometheus.Collector's.
func (m *Membership) Describe(out chan<- *prometheus.Desc) {
	out <- slotsDescription
	out <- replicasDescription
	out <- epochDescription
}

// Collect is prometheus.Collector's.
func (m *Membership) Collect(out chan<- prometheus.Metric) {
	m.mu.Lock()
	own, slots, epoch := m.own, len(m.tenures), int64(0)
	for _, t := range m.tenures {
		epoch = max(epoch, t.Epoch)
	}
	m.mu.Unlock()
	replicas := 0
	if own != nil {
		peers, _, _ := m.records.peers(own.id, "", time.Now())
		replicas = len(peers) + 1
	}
	out <- prometheus.MustNewConstMetric(slotsDescription, prometheus.GaugeValue, float64(slots))
	out <- prometheus.MustNewConstMetric(replicasDescription, prometheus.GaugeValue, float64(replicas))
	out <- prometheus.MustNewConstMetric(epochDescription, prometheus.GaugeValue, float64(epoch))
}
