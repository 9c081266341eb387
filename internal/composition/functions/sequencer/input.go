package sequencer

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/espalier-dev/espalier/internal/composition/functions/strict"
	"github.com/espalier-dev/espalier/internal/diag"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/object/regexps"
)

type input struct {
	APIVersion     string         `json:"apiVersion"`
	Kind           string         `json:"kind"`
	Metadata       map[string]any `json:"metadata"`
	CacheTTL       string         `json:"cacheTTL"`
	OrdersDeletion bool           `json:"enableDeletionSequencing"`
	ReplayDeletion *bool          `json:"replayDeletion"`
	UsageVersion   string         `json:"usageVersion"`
	ResetReadiness bool           `json:"resetCompositeReadiness"`
	Rules          []rule         `json:"rules"`

	ttl time.Duration
}

// rule is a sequence of resources, each named by an expression: one is created once those before it are ready, and deleted before them.
type rule struct {
	Condition  string   `json:"condition"`
	CreateOnly bool     `json:"createOnly"`
	DeleteOnly bool     `json:"deleteOnly"`
	Sequence   []string `json:"sequence"`
}

// The versions of usages: of protection.crossplane.io, and of Crossplane 1.
const (
	usageV1 = "v1"
	usageV2 = "v2"
)

// maxEntries bounds the entries of all sequences.
const maxEntries = 1000

// decode returns all problems of the input.
func decode(o map[string]any) (in *input, problems diag.List) {
	in = &input{}
	strict.Decode(o, in, "", &problems)
	if in.CacheTTL != "" {
		var err error
		if in.ttl, err = time.ParseDuration(in.CacheTTL); err != nil || in.ttl < 0 {
			problems.Addf("cacheTTL", "%q is not a duration", diag.Truncate(in.CacheTTL, 100))
		}
	}
	if versions := []string{usageV2, usageV1}; in.UsageVersion != "" && !slices.Contains(versions, in.UsageVersion) {
		problems.Add(diag.Diagnostic{
			Path: "usageVersion", Problem: "cannot be " + strconv.Quote(diag.Truncate(in.UsageVersion, 100)),
			Expected: strings.Join(versions, ", "), Nearest: diag.Nearest(in.UsageVersion, versions),
		})
	}
	entries := 0
	for i, r := range in.Rules {
		at := object.Path("rules").Index(i)
		if r.CreateOnly && r.DeleteOnly {
			problems.Addf(at, "createOnly and deleteOnly exclude each other")
		}
		if r.Condition != "" {
			if _, err := compile(r.Condition); err != nil {
				problems.Addf(at.Field("condition"), "%s", diag.Truncate(err.Error(), 1000))
			}
		}
		for j, pattern := range r.Sequence {
			if _, err := regexps.Compile(anchored(pattern)); err != nil {
				problems.Addf(at.Field("sequence").Index(j), "%v", err)
			}
		}
		entries += len(r.Sequence)
	}
	if entries > maxEntries {
		problems.Addf("rules", "have %d entries in their sequences, over the limit of %d", entries, maxEntries)
	}
	return in, problems.Sorted()
}

// anchored makes a pattern match whole names, unless it says where it begins or ends.
func anchored(pattern string) string {
	if strings.HasPrefix(pattern, "^") || strings.HasSuffix(pattern, "$") {
		return pattern
	}
	return "^" + pattern + "$"
}

// Check lists the problems that make the function fail with an input.
func Check(input map[string]any) diag.List {
	_, problems := decode(input)
	return problems
}
