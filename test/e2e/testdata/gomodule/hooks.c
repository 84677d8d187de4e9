// The hooks that Envoy demands of a module.
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "_cgo_export.h"

#define HOOK(result, name, arguments) __attribute__((visibility("default"))) result envoy_dynamic_module_on_##name arguments

typedef struct { const char *ptr; size_t length; } buffer;
static int module;

HOOK(const char *, program_init, (void)) { return "v0.2.0"; }
HOOK(const void *, http_filter_config_new, (void *envoy, buffer name, buffer text)) { return &module; }
HOOK(void, http_filter_config_destroy, (const void *c)) {}
HOOK(const void *, http_filter_new, (const void *c, void *f)) { return &module; }
HOOK(void, http_filter_destroy, (const void *m)) {}
HOOK(int, http_filter_request_headers, (void *f, const void *m, bool end)) { goModuleRequest((int)(uintptr_t)f); return 0; }
HOOK(int, http_filter_request_body, (void *f, const void *m, bool end)) { return 0; }
HOOK(int, http_filter_request_trailers, (void *f, const void *m)) { return 0; }
HOOK(int, http_filter_response_headers, (void *f, const void *m, bool end)) { return 0; }
HOOK(int, http_filter_response_body, (void *f, const void *m, bool end)) { return 0; }
HOOK(int, http_filter_response_trailers, (void *f, const void *m)) { return 0; }
HOOK(void, http_filter_stream_complete, (void *f, const void *m)) {}
HOOK(void, http_filter_scheduled, (void *f, const void *m, uint64_t event)) {}
HOOK(void, http_filter_http_callout_done, (void *f, const void *m, uint64_t id, int result, void *h, size_t n, void *b, size_t k)) {}
HOOK(void, http_filter_http_stream_headers, (void *f, const void *m, uint64_t id, void *h, size_t n, bool end)) {}
HOOK(void, http_filter_http_stream_data, (void *f, const void *m, uint64_t id, const void *b, size_t n, bool end)) {}
HOOK(void, http_filter_http_stream_trailers, (void *f, const void *m, uint64_t id, void *h, size_t n)) {}
HOOK(void, http_filter_http_stream_complete, (void *f, const void *m, uint64_t id)) {}
HOOK(void, http_filter_http_stream_reset, (void *f, const void *m, uint64_t id, int reason)) {}
HOOK(void, http_filter_downstream_above_write_buffer_high_watermark, (void *f, const void *m)) {}
HOOK(void, http_filter_downstream_below_write_buffer_low_watermark, (void *f, const void *m)) {}
