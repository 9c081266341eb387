package server

import (
	"testing"

	"github.com/espalier-dev/espalier/internal/serving/install"
)

func TestDefinitionsAreEnqueuedWhenTheConversionEndpointChanges(t *testing.T) {
	changed := 0
	c := &conversions{changed: func() { changed++ }}
	if at, planned := c.Endpoint(); at != nil || planned {
		t.Errorf("at first: %v, %t", at, planned)
	}
	c.expectEndpoint()
	if _, planned := c.Endpoint(); !planned {
		t.Error("it isn't planned")
	}
	for _, step := range []struct {
		at   install.Endpoint
		want int
	}{{install.Endpoint{URL: "https://a"}, 1}, {install.Endpoint{URL: "https://a"}, 1}, {install.Endpoint{URL: "https://b"}, 2}} {
		c.setEndpoint(step.at)
		if at, _ := c.Endpoint(); at.URL != step.at.URL || changed != step.want {
			t.Errorf("at %s, changed %d times", at.URL, changed)
		}
	}
}
