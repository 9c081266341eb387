package xpkg

import (
	"fmt"
	"slices"

	"github.com/Masterminds/semver/v3"
	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// CheckVersion checks what a dependency says of the version: a range, or a digest.
func CheckVersion(text string) error {
	if _, err := v1.NewHash(text); err == nil {
		return nil
	}
	_, err := parseRange(text)
	return err
}

func parseRange(text string) (*semver.Constraints, error) {
	if text == "" {
		return nil, fmt.Errorf("it has no version; %q accepts every release", ">=0.0.0")
	}
	if len(text) > maxRange {
		return nil, fmt.Errorf("its version has more than %d characters", maxRange)
	}
	r, err := semver.NewConstraint(text)
	if err != nil {
		return nil, fmt.Errorf("%q is not a range of versions, such as %q: %w", text, ">=1.2.0 <2", err)
	}
	return r, nil
}

// Versions returns the tags that are semantic versions, the lowest first.
func Versions(tags []string) []string {
	var parsed []*semver.Version
	for _, tag := range tags {
		if v, err := semver.NewVersion(tag); err == nil {
			parsed = append(parsed, v)
		}
	}
	slices.SortStableFunc(parsed, (*semver.Version).Compare)
	out := make([]string, len(parsed))
	for i, v := range parsed {
		out[i] = v.Original()
	}
	return out
}

// Newest returns the highest of the tags that is in a range, and empty if none is. Prereleases are only in ranges that name one, such as
// ">=1.0.0-0".
func Newest(tags []string, inRange string) (string, error) {
	r, err := parseRange(inRange)
	if err != nil {
		return "", err
	}
	for _, tag := range slices.Backward(Versions(tags)) {
		if v, err := semver.NewVersion(tag); err == nil && r.Check(v) {
			return tag, nil
		}
	}
	return "", nil
}
