package server_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/rest"

	"github.com/espalier-dev/espalier/internal/program/server"
	"github.com/espalier-dev/espalier/internal/telemetry"
)

// described is a metric as its collector describes it.
var described = regexp.MustCompile(`fqName: "([^"]+)".*variableLabels: \{([^}]*)\}`)

// TestEveryMetricIsDocumented compares docs/metrics.md with what the program registers.
func TestEveryMetricIsDocumented(t *testing.T) {
	c, err := server.NewControllers(server.Options{Config: &rest.Config{Host: "http://127.0.0.1:1"}, Settings: server.Settings{Workers: 1}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Functions.Close()
	collectors := append(c.Collectors(), c.WatchCollector(), c.Engine.Collector(), c.Requests)
	collectors = append(collectors, telemetry.NewMetrics().Collectors()...)
	collectors = append(collectors, telemetry.NewConversions().Collectors()...)
	collectors = append(collectors, telemetry.NewWebhooks().Collectors()...)
	collectors = append(collectors, telemetry.NewMetricsRequests().Collectors()...)
	var want []string
	for _, collector := range collectors {
		descs := make(chan *prometheus.Desc)
		go func() {
			defer close(descs)
			collector.Describe(descs)
		}()
		for desc := range descs {
			found := described.FindStringSubmatch(desc.String())
			if found == nil {
				t.Fatalf("can't read %s", desc)
			}
			want = append(want, strings.TrimSpace(found[1]+" "+strings.ReplaceAll(found[2], ",", " ")))
		}
	}
	text, err := os.ReadFile("../../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(line, "|")
		if len(cells) < 5 || !strings.HasPrefix(strings.TrimSpace(cells[1]), "`espalier_") {
			continue
		}
		if strings.HasPrefix(strings.TrimSpace(cells[1]), "`espalier_aws_") { // of a provider, which compares them
			continue
		}
		words := regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(cells[1]+cells[3], -1)
		var row []string
		for _, w := range words {
			row = append(row, w[1])
		}
		got = append(got, strings.Join(row, " "))
	}
	slices.Sort(want)
	slices.Sort(got)
	for _, metric := range want {
		if !slices.Contains(got, metric) {
			t.Errorf("docs/metrics.md doesn't list: %s", metric)
		}
	}
	for _, metric := range got {
		if !slices.Contains(want, metric) {
			t.Errorf("docs/metrics.md lists what there isn't: %s", metric)
		}
	}
}
