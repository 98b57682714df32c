/* The picture as one HTML file: SVG, table and text, with a small script that zooms and tells what is under the pointer. */
#include <inttypes.h>

#include "report/picture.h"

static const double MIB = 1024.0 * 1024.0;

static const char style[] =
    "body{font:14px sans-serif;margin:16px;color:#222;max-width:1500px}svg.picture{width:100%;height:auto;cursor:grab}"
    "table{border-collapse:collapse}td,th{padding:2px 9px;text-align:right}th{border-bottom:1px solid #888}"
    "tr.measured td{border-bottom:1px solid #ddd}"
    "#tip{position:fixed;display:none;white-space:pre;background:#fffff0;border:1px solid #888;padding:4px 7px;"
    "pointer-events:none;font-size:12px}button{min-width:2.2em;margin-right:4px}";

/* x, w: what all plots show, in their 1000 units. */
static const char script[] =
    "(function(){\n"
    "var "
    "s=document.querySelector('svg.picture'),plots=s.querySelectorAll('svg.plot'),tip=document.getElementById('tip'),\n"
    "  numbers=s.querySelectorAll('text.number'),ticks=s.querySelectorAll('text.tick'),x=0,w=1000,\n"
    "  ms=1e3*s.getAttribute('data-seconds');\n"
    "s.querySelectorAll('.plot title,rect.part title').forEach(function(t){\n"
    "  t.parentNode.setAttribute('data-tip',t.textContent);t.remove();});\n"
    "function show(){\n"
    "  w=Math.min(1000,Math.max(0.01,w));x=Math.min(1000-w,Math.max(0,x));\n"
    "  plots.forEach(function(p){p.setAttribute('viewBox',x+' 0 '+w+' '+p.getAttribute('height'));});\n"
    "  numbers.forEach(function(n){n.setAttribute('transform',\n"
    "    'translate('+n.getAttribute('data-x')+' '+n.getAttribute('data-y')+') scale('+w/1000+' 1)');\n"
    "    n.style.display=n.getAttribute('data-width')*1000/w<2+6*n.textContent.length?'none':'';});\n"
    "  ticks.forEach(function(t){var part=+t.getAttribute('data-part');\n"
    "    t.textContent=+((x+part*w)/1000*ms).toPrecision(w<100?7:4)+(part==1?' ms':'');});\n"
    "}\n"
    "function zoom(by,at){x=x+at*w-at*Math.min(1000,w*by);w*=by;show();}\n"
    "function part(e){var r=s.getBoundingClientRect();\n"
    "  return ((e.clientX-r.left)*s.viewBox.baseVal.width/r.width-plots[0].x.baseVal.value)/1000;}\n"
    "s.addEventListener('wheel',function(e){if(!e.ctrlKey&&!e.shiftKey)return;e.preventDefault();\n"
    "  zoom((e.deltaY||e.deltaX)<0?0.8:1.25,Math.min(1,Math.max(0,part(e))));},{passive:false});\n"
    "s.addEventListener('dblclick',function(e){e.preventDefault();zoom(0.5,Math.min(1,Math.max(0,part(e))));});\n"
    "var from=null;\n"
    "s.addEventListener('mousedown',function(e){from=part(e);e.preventDefault();});\n"
    "window.addEventListener('mouseup',function(){from=null;});\n"
    "s.addEventListener('mousemove',function(e){\n"
    "  if(from!==null&&e.buttons){var to=part(e);x-=(to-from)*w;from=to;show();}\n"
    "  var t=e.target.getAttribute('data-tip');tip.style.display=t?'block':'none';\n"
    "  "
    "if(t){tip.textContent=t;tip.style.left=Math.min(e.clientX+14,innerWidth-260)+'px';tip.style.top=e.clientY+14+'px';"
    "}\n"
    "});\n"
    "s.addEventListener('mouseleave',function(){tip.style.display='none';});\n"
    "document.getElementById('in').onclick=function(){zoom(0.5,0.5);};\n"
    "document.getElementById('out').onclick=function(){zoom(2,0.5);};\n"
    "document.getElementById('all').onclick=function(){x=0;w=1000;show();};\n"
    "})();\n";

static void write_notes(FILE *out, const struct timeline *t) {
  if (t->n_drawn < t->n_ranks)
    fprintf(out, "<p>%s: the first %d of %d ranks are drawn.</p>\n", t->title, (int)t->n_drawn, (int)t->n_ranks);
  if (t->merged) fprintf(out, "<p>%s: passes too short to be told apart share a bar.</p>\n", t->title);
  if (!t->has_messages) fprintf(out, "<p>%s: messages are not drawn, there are too many.</p>\n", t->title);
}

static void write_rank(FILE *out, const struct timeline *t, int32_t r) {
  const struct report_rank *rank = &t->ranks[r];
  fprintf(out, "<tr class=\"%s\"><td>%d</td><td>%s</td>", t->title, (int)r, t->title);
#define X(name, ...) fprintf(out, "<td>%.3f</td>", rank->name * 1e3);
  REPORT_PARTS(X)
#undef X
  fprintf(out, "<td>%.2f</td>", (double)rank->peak_bytes / MIB);
  if (rank->limit_bytes == INT64_MAX)
    fputs("<td>none</td></tr>\n", out);
  else
    fprintf(out, "<td>%.2f</td></tr>\n", (double)rank->limit_bytes / MIB);
}

/* The prediction of a rank above its measurement. */
static void write_table(FILE *out, const struct picture *picture) {
  int32_t n = 0;
  fputs("<h2>Time of each rank by cause, ms; memory, MiB</h2>\n<table>\n<tr><th>rank</th><th></th>", out);
#define X(name, title, meaning) fprintf(out, "<th title=\"%s\">%s</th>", meaning, title);
  REPORT_PARTS(X)
#undef X
  fputs("<th>peak</th><th>limit</th></tr>\n", out);
  for (int i = 0; i < picture->n_timelines; i++)
    if (picture->timelines[i].n_drawn > n) n = picture->timelines[i].n_drawn;
  for (int32_t r = 0; r < n; r++)
    for (int i = 0; i < picture->n_timelines; i++)
      if (r < picture->timelines[i].n_drawn) write_rank(out, &picture->timelines[i], r);
  fputs("</table>\n<ul>\n", out);
#define X(name, title, meaning) fprintf(out, "<li><b>%s</b>: %s</li>\n", title, meaning);
  REPORT_PARTS(X)
#undef X
  fputs("</ul>\n", out);
}

void picture_write_html(FILE *out, const struct picture *picture, const char *text) {
  fputs("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<title>", out);
  picture_write_escaped(out, picture->name);
  fprintf(out, "</title>\n<style>%s</style>\n</head>\n<body>\n<h1>", style);
  picture_write_escaped(out, picture->name);
  fputs("</h1>\n<p>planner ", out);
  picture_write_escaped(out, picture->planner ? picture->planner : "unknown");
  for (int i = 0; i < picture->n_timelines; i++) {
    const struct timeline *t = &picture->timelines[i];
    fprintf(out, "; %s step %.6g ms", t->title, (t->end_s - t->begin_s) * 1e3);
  }
  fputs("</p>\n", out);
  for (int i = 0; i < picture->n_timelines; i++) write_notes(out, &picture->timelines[i]);
  fputs("<p><button id=\"in\">+</button><button id=\"out\">&minus;</button><button id=\"all\">all</button> zoom; also "
        "double click, or Shift and the wheel; drag to move. The bars below a rank's passes are its sends and "
        "receives. Red edges: the critical path, which the step is as long as.</p>\n",
        out);
  picture_write_svg(out, picture, false);
  write_table(out, picture);
  if (text) {
    fputs("<h2>Report</h2>\n<pre>", out);
    picture_write_escaped(out, text);
    fputs("</pre>\n", out);
  }
  fprintf(out, "<div id=\"tip\"></div>\n<script>\n%s</script>\n</body>\n</html>\n", script);
}
