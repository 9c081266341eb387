package curve_test

import (
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"math"
	"strings"
	"testing"

	"github.com/espalier-dev/espalier/internal/testkit/golden"
	"github.com/espalier-dev/espalier/test/bench/curve"
)

func TestExponent(t *testing.T) {
	for name, tc := range map[string]struct {
		points []curve.Point
		want   float64
		none   bool
	}{
		"a constant has 0":                          {points: []curve.Point{{100, 7}, {1000, 7}, {10_000, 7}}, want: 0},
		"what is proportional has 1":                {points: []curve.Point{{100, 3}, {1000, 30}, {10_000, 300}}, want: 1},
		"a square has 2":                            {points: []curve.Point{{10, 100}, {30, 900}}, want: 2},
		"what shrinks has a negative one":           {points: []curve.Point{{100, 10}, {10_000, 1}}, want: -0.5},
		"deviations to both sides cancel":           {points: []curve.Point{{1, 2}, {1, 0.5}, {100, 200}, {100, 50}}, want: 1},
		"points without a logarithm do not count":   {points: []curve.Point{{0, 5}, {100, 0}, {100, -1}, {100, 3}, {1000, 30}}, want: 1},
		"one size has none, however often measured": {points: []curve.Point{{100, 7}, {100, 8}}, none: true},
		"no points have none":                       {none: true},
	} {
		t.Run(name, func(t *testing.T) {
			got, ok := curve.Exponent(tc.points)
			if ok == tc.none || math.Abs(got-tc.want) > 1e-9 {
				t.Errorf("got %v, %t; want %v, %t", got, ok, tc.want, !tc.none)
			}
		})
	}
}

func TestCharts(t *testing.T) {
	golden.Run(t, "testdata/*.txtar", func(t *testing.T, a *golden.Archive) {
		var c curve.Chart
		if err := json.Unmarshal([]byte(a.Input["chart.json"]), &c); err != nil {
			t.Fatal(err)
		}
		picture := c.SVG()
		checkXML(t, picture)
		a.Record("svg", picture)
	})
}

// checkXML fails the test if a picture isn't well-formed, or has a number that isn't one.
func checkXML(t *testing.T, picture string) {
	t.Helper()
	for d := xml.NewDecoder(strings.NewReader(picture)); ; {
		_, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, wrong := range []string{"NaN", "Inf", "%!"} {
		if strings.Contains(picture, wrong) {
			t.Errorf("the picture has %s", wrong)
		}
	}
}
