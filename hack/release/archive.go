package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/flate"
	"compress/gzip"
	"io"
	"path"
	"slices"
	"time"
)

// file is a file of an archive. A directory has a name that ends in a slash.
type file struct {
	name    string
	mode    int64
	content []byte
}

func (f *file) isDirectory() bool { return f.name[len(f.name)-1] == '/' }

// tarOf returns a tar archive with the files in the given order, of user and group 0.
func tarOf(files []file, date time.Time) ([]byte, error) {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, f := range files {
		header := &tar.Header{Typeflag: tar.TypeReg, Name: f.name, Mode: f.mode, Size: int64(len(f.content)), ModTime: date, Format: tar.FormatPAX}
		if f.isDirectory() {
			header.Typeflag = tar.TypeDir
		}
		if err := w.WriteHeader(header); err != nil {
			return nil, err
		}
		if _, err := w.Write(f.content); err != nil {
			return nil, err
		}
	}
	err := w.Close()
	return out.Bytes(), err
}

// compress compresses with gzip, without a name and a date.
func compress(content []byte) ([]byte, error) {
	var out bytes.Buffer
	w, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	if _, err := w.Write(content); err != nil {
		return nil, err
	}
	err = w.Close()
	return out.Bytes(), err
}

func zipOf(files []file, date time.Time) ([]byte, error) {
	var out bytes.Buffer
	w := zip.NewWriter(&out)
	w.RegisterCompressor(zip.Deflate, func(to io.Writer) (io.WriteCloser, error) { return flate.NewWriter(to, flate.BestCompression) })
	for _, f := range files {
		header := &zip.FileHeader{Name: f.name, Method: zip.Deflate, Modified: date}
		header.SetMode(0o644)
		if f.mode&0o100 != 0 {
			header.SetMode(0o755)
		}
		to, err := w.CreateHeader(header)
		if err != nil {
			return nil, err
		}
		if _, err := to.Write(f.content); err != nil {
			return nil, err
		}
	}
	err := w.Close()
	return out.Bytes(), err
}

// archive packs the files, and returns its name: a zip for Windows, and otherwise a tar.gz.
func archive(o *options, b *built, files []file) (name string, content []byte, err error) {
	slices.SortFunc(files, func(a, b file) int { return bytes.Compare([]byte(a.name), []byte(b.name)) })
	name = b.name(o)
	if b.os == "windows" {
		content, err = zipOf(files, o.date)
		return name + ".zip", content, err
	}
	if content, err = tarOf(files, o.date); err != nil {
		return "", nil, err
	}
	content, err = compress(content)
	return name + ".tar.gz", content, err
}

// withDirectories adds the directories of the files before them.
func withDirectories(files []file) []file {
	var out []file
	seen := map[string]bool{".": true}
	var add func(name string)
	add = func(name string) {
		if seen[name] {
			return
		}
		seen[name] = true
		add(path.Dir(name))
		out = append(out, file{name: name + "/", mode: 0o755})
	}
	for _, f := range files {
		add(path.Dir(f.name))
		out = append(out, f)
	}
	return out
}
