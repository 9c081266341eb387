package main

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestRequestsAreReadFromTheMetrics(t *testing.T) {
	const metrics = `# HELP apiserver_request_total Counter of apiserver requests
# TYPE apiserver_request_total counter
apiserver_request_total{code="200",group="",resource="configmaps",scope="resource",subresource="",verb="APPLY",version="v1"} 3
apiserver_request_total{code="201",group="",resource="configmaps",scope="resource",subresource="",verb="APPLY",version="v1"} 1500
apiserver_request_total{code="200",group="g",resource="flats",scope="resource",subresource="status",verb="PATCH",version="v1"} 1e+03
apiserver_request_total{code="0",group="g",resource="flats",scope="cluster",subresource="",verb="WATCH",version="v1"} 7
apiserver_request_total{code="200",group="",resource="",scope="",subresource="/metrics",verb="GET",version=""} 9
apiserver_request_total{code="200",group="coordination.k8s.io",resource="leases",scope="resource",subresource="",verb="PUT",version="v1"} 4
apiserver_request_duration_seconds_count{resource="configmaps",verb="APPLY"} 1503
`
	got, err := parseRequests([]byte(metrics))
	if err != nil {
		t.Fatal(err)
	}
	want := requests{{"APPLY", "configmaps"}: 1503, {"PATCH", "flats/status"}: 1000}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestRequestsOfTheBenchmarkAreSubtracted(t *testing.T) {
	before := requests{{"POST", "flats"}: 30, {"GET", "flats"}: 1}
	after := requests{{"POST", "flats"}: 330, {"GET", "flats"}: 1, {"POST", "events"}: 2, {"APPLY", "configmaps"}: 5}
	got := after.minus(before).minus(requests{{"POST", "flats"}: 300})
	if diff := cmp.Diff(requests{{"POST", "events"}: 2, {"APPLY", "configmaps"}: 5}, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if n := got.of(work); n != 5 {
		t.Errorf("events count as work: %d", n)
	}
}

func TestQuantile(t *testing.T) {
	for name, tc := range map[string]struct {
		of    []int
		share float64
		want  int
	}{
		"the quantile of no values is zero":         {nil, 0.5, 0},
		"the median of three is the middle":         {[]int{3, 1, 2}, 0.5, 2},
		"the 99th percentile of few is the maximum": {[]int{3, 1, 2}, 0.99, 3},
		"the quantile of 0 is the minimum":          {[]int{3, 1, 2}, 0, 1},
	} {
		t.Run(name, func(t *testing.T) {
			if got := quantile(tc.of, tc.share); got != tc.want {
				t.Errorf("got %d, want %d", got, tc.want)
			}
		})
	}
}

func TestVerdict(t *testing.T) {
	for name, tc := range map[string]struct {
		value, budget float64
		want          string
	}{
		"a value that equals the budget is ok":     {9, 9, "ok"},
		"a value over the budget says by how much": {2.6, 1.3, "MISSED by 100 %"},
		"a budget of 0 has no share":               {1, 0, "MISSED"},
		"0 is within a budget of 0":                {0, 0, "ok"},
		"a small excess is not rounded to ok":      {9.01, 9, "MISSED by 0 %"},
	} {
		t.Run(name, func(t *testing.T) {
			var b bench
			b.add(row{Value: tc.value, Budget: tc.budget})
			if got := b.rows[0].verdict(); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}
