// Every text and every mark on the page that stands out too little from what is behind it.
(() => {
  for (const details of document.querySelectorAll("details")) details.open = true;
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  // Reading a pixel back takes long, and there are few colours.
  const known = new Map();
  const rgba = (colour) => {
    if (!known.has(colour)) {
      canvas.clearRect(0, 0, 1, 1);
      canvas.fillStyle = colour;
      canvas.fillRect(0, 0, 1, 1);
      known.set(colour, [...canvas.getImageData(0, 0, 1, 1).data]);
    }
    return known.get(colour);
  };
  const luminance = (colour) => {
    const [r, g, b] = rgba(colour).map((part) => {
      const share = part / 255;
      return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const contrast = (one, other) => {
    const [low, high] = [luminance(one), luminance(other)].sort((a, b) => a - b);
    return (high + 0.05) / (low + 0.05);
  };
  const behind = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const colour = getComputedStyle(at).backgroundColor;
      if (rgba(colour)[3] === 255) return colour;
    }
    return getComputedStyle(document.body).backgroundColor;
  };
  const bad = [];
  let seen = 0;
  const check = (element, colour, least) => {
    if (colour === "none") return;
    seen += 1;
    const ratio = contrast(colour, behind(element));
    if (ratio < least) bad.push(`${element.tagName} ${element.getAttribute("class")} ${colour}: ${ratio.toFixed(2)}`);
  };
  for (const element of document.body.querySelectorAll("*")) {
    const style = getComputedStyle(element);
    if (["SCRIPT", "title", "desc"].includes(element.tagName)) continue;
    const says = [...element.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim());
    if (says) check(element, element.tagName === "text" ? style.fill : style.color, 4.5);
    if (element.matches(".line, .interval, .hollow .marker, .axis, .area.blocked")) check(element, style.stroke, 3);
    if (element.matches(".marker:not(.hollow .marker), .sample, .area:not(.blocked, .sleeping)")) check(element, style.fill, 3);
  }
  return { seen, bad: [...new Set(bad)] };
})()
