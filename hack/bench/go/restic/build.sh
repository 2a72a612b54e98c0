go build -ldflags "$LDFLAGS" -o "$OUT/" tool
