package model

import (
	"slices"

	"github.com/espalier-dev/espalier/providers/aws/resourcetype"
)

// dropExcluded removes from found what excludes properties that the user has set, or each other: AWS returns properties
// beside each other although a request may only have one, such as AvailabilityZone and AvailabilityZoneId.
func dropExcluded(t *resourcetype.Type, s *resourcetype.Schema, wanted, found map[string]any) {
	isSet := func(name string) bool {
		return wanted[name] != nil && wanted[name] != false || hasSibling(wanted, name)
	}
	drop := func(names []string) {
		for _, name := range names {
			if !isSet(name) {
				delete(found, name)
			}
		}
	}
	for _, e := range t.AllExclusions(s) {
		switch {
		case len(e.Others) > 0 && slices.ContainsFunc(e.Others, isSet):
			drop(e.Names)
		case len(e.Others) > 0 && (isSet(e.Names[0]) || !isBlank(found[e.Names[0]])):
			drop(e.Others)
		case len(e.Others) > 0:
		case slices.ContainsFunc(e.Names, isSet):
			drop(e.Names)
		default:
			if i := slices.IndexFunc(e.Names, func(name string) bool { return !isBlank(found[name]) }); i >= 0 {
				drop(slices.Concat(e.Names[:i], e.Names[i+1:]))
			}
		}
	}
}

func excludes(t *resourcetype.Type, s *resourcetype.Schema, object map[string]any) bool {
	isSet := func(name string) bool { return object[name] != nil && object[name] != false }
	return slices.ContainsFunc(t.AllExclusions(s), func(e resourcetype.Exclusion) bool {
		if len(e.Others) > 0 {
			return isSet(e.Names[0]) && slices.ContainsFunc(e.Others, isSet)
		}
		n := 0
		for _, name := range e.Names {
			if isSet(name) {
				n++
			}
		}
		return n > 1
	})
}
