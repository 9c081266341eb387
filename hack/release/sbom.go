package main

import (
	"bytes"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"runtime/debug"
	"strings"
	"time"

	cyclonedx "github.com/CycloneDX/cyclonedx-go"
)

// sbomMediaType is the media type of an SBOM.
const sbomMediaType = "application/vnd.cyclonedx+json"

// sbom describes a program by what the compiler recorded in it, in CycloneDX. The licences are those of
// the modules' sources. Other components are in the image beside the program.
func sbom(o *options, b *built, others ...cyclonedx.Component) ([]byte, error) {
	info, err := buildinfo.Read(bytes.NewReader(b.binary))
	if err != nil {
		return nil, err
	}
	sources := map[string]module{}
	for _, m := range b.modules {
		sources[m.path] = m
	}
	digest := sha256.Sum256(b.binary)
	main := cyclonedx.Component{
		Type: cyclonedx.ComponentTypeApplication, Name: b.program, Version: o.version,
		PackageURL: packageURL(info.Main.Path, o.version) + "?goarch=" + b.arch + "&goos=" + b.os + subpath(b.program),
		Hashes:     &[]cyclonedx.Hash{{Algorithm: cyclonedx.HashAlgoSHA256, Value: hex.EncodeToString(digest[:])}},
		Licenses:   licensesOf([]string{license}),
		Properties: &[]cyclonedx.Property{{Name: "espalier:revision", Value: o.revision}},
	}
	main.BOMRef = main.PackageURL
	components := []cyclonedx.Component{}
	names := []string{}
	for _, dependency := range append(info.Deps, &debug.Module{Path: standardLibrary, Version: info.GoVersion}) {
		source, known := sources[dependency.Path]
		if !known {
			return nil, fmt.Errorf("module %s is in the program, but not in its sources", dependency.Path)
		}
		version, sum := dependency.Version, dependency.Sum
		switch replaced := dependency.Replace; {
		case source.isOurs():
			version = o.version // replaced by its folder
		case replaced != nil:
			version, sum = replaced.Version, replaced.Sum
		}
		c := cyclonedx.Component{
			Type: cyclonedx.ComponentTypeLibrary, Name: dependency.Path, Version: version,
			PackageURL: packageURL(dependency.Path, strings.TrimPrefix(version, "go")),
			Hashes:     hashesOf(sum), Licenses: licensesOf(source.licences()),
		}
		c.BOMRef = c.PackageURL
		components, names = append(components, c), append(names, c.BOMRef)
	}
	for _, c := range others {
		components, names = append(components, c), append(names, c.BOMRef)
		digest = sha256.Sum256(append(digest[:], c.BOMRef...))
	}
	bom := cyclonedx.NewBOM()
	bom.SerialNumber = uuid(digest) // the same for the same contents
	bom.Metadata = &cyclonedx.Metadata{Timestamp: o.date.Format(time.RFC3339), Component: &main}
	bom.Components = &components
	bom.Dependencies = &[]cyclonedx.Dependency{{Ref: main.BOMRef, Dependencies: &names}}
	var out bytes.Buffer
	if err := cyclonedx.NewBOMEncoder(&out, cyclonedx.BOMFileFormatJSON).SetPretty(true).EncodeVersion(bom, cyclonedx.SpecVersion1_6); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// uuid is a UUID of version 8, which is free to have any content.
func uuid(digest [sha256.Size]byte) string {
	digest[6] = digest[6]&0x0f | 0x80
	digest[8] = digest[8]&0x3f | 0x80
	return fmt.Sprintf("urn:uuid:%x-%x-%x-%x-%x", digest[0:4], digest[4:6], digest[6:8], digest[8:10], digest[10:16])
}

// subpath is the part of a package URL with the folder of a program in its module.
func subpath(name string) string {
	if folder := sources[name].folder; folder != "" {
		return "#" + folder
	}
	return ""
}

func packageURL(path, version string) string { return "pkg:golang/" + path + "@" + version }

// hashesOf is the sum in go.sum, as a hash.
func hashesOf(sum string) *[]cyclonedx.Hash {
	raw, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(sum, "h1:"))
	if err != nil || len(raw) != sha256.Size {
		return nil // our own modules have none
	}
	return &[]cyclonedx.Hash{{Algorithm: cyclonedx.HashAlgoSHA256, Value: hex.EncodeToString(raw)}}
}

func licensesOf(ids []string) *cyclonedx.Licenses {
	if len(ids) == 0 {
		return nil
	}
	var out cyclonedx.Licenses
	for _, id := range ids {
		out = append(out, cyclonedx.LicenseChoice{License: &cyclonedx.License{ID: id}})
	}
	return &out
}
