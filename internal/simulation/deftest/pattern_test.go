package deftest

import (
	"math/rand/v2"
	"regexp"
	"testing"
	"unicode/utf8"
)

func TestTextsMatchPatterns(t *testing.T) {
	for name, c := range map[string]struct {
		pattern     string
		least, most int
	}{
		"a name":                     {`^[a-z]([-a-z0-9]*[a-z0-9])?$`, 1, 63},
		"a long name":                {`^[a-z]([-a-z0-9]*[a-z0-9])?$`, 40, 63},
		"alternatives":               {`^(small|large|x{3})$`, 0, 12},
		"not anchored":               {`[0-9]+Gi`, 0, 12},
		"an ARN":                     {`^arn:aws[a-z-]*:iam::\d{12}:role/[\w+=,.@-]+$`, 0, 2048},
		"counted":                    {`^\d{3}-\d{4}$`, 8, 8},
		"a negated class":            {`^[^/\s]+$`, 1, 10},
		"other letters":              {`^\p{Greek}+$`, 1, 5},
		"ignoring case":              {`(?i)^yes$`, 0, 3},
		"a word boundary":            {`\bab\b`, 0, 12},
		"nothing":                    {`^$`, 0, 12},
		"nested counts":              {`^(([a-z]{2,4}\.){1,3}[a-z]{2,3})$`, 0, 30},
		"any character, bounded":     {`^.{5,7}$`, 0, 6},
		"CIDR blocks":                {`^([0-9]{1,3}\.){3}[0-9]{1,3}/[0-9]{1,2}$`, 9, 18},
		"an optional part, too long": {`^a(b{1000})?$`, 0, 5},
	} {
		t.Run(name, func(t *testing.T) {
			matches := regexp.MustCompile(c.pattern)
			for seed := range uint64(50) {
				d := drawing{rand.New(rand.NewPCG(seed, 1)), 0.5}
				text, ok := d.matching(c.pattern, c.least, c.most)
				if n := utf8.RuneCountInString(text); !ok || !matches.MatchString(text) || n < c.least || n > c.most {
					t.Fatalf("seed %d: %q, %v", seed, text, ok)
				}
			}
		})
	}
}

func TestImpossiblePatternsAreGivenUp(t *testing.T) {
	for name, pattern := range map[string]string{"invalid": `a(`, "contradictory": `b^a`, "an empty class": `[^\x00-\x{10FFFF}]`, "endless": `^((((a*)*)*)*)*b\bb$`} {
		t.Run(name, func(t *testing.T) {
			d := drawing{rand.New(rand.NewPCG(1, 1)), 0.5}
			if text, ok := d.matching(pattern, 0, 100); ok {
				t.Errorf("%q matches", text)
			}
		})
	}
}
